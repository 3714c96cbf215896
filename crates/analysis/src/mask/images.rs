//! What becomes of a mask that measures distances where molecules lie near a face of the cell.

use std::fmt;

/// What a mask would select otherwise if its distances were between nearest periodic images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WithoutImages {
    /// The mask.
    pub mask: String,
    /// Atoms that it selects only without images.
    pub n_only_without: usize,
    /// Atoms that it would select only with them.
    pub n_only_with: usize,
    /// The first of either.
    pub first: String,
}

impl fmt::Display for WithoutImages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mask, n_only_without, n_only_with, first } = self;
        let counts = [count(*n_only_with, "more"), count(*n_only_without, "fewer")];
        let counts: Vec<String> = counts.into_iter().flatten().collect();
        write!(
            f,
            "distances in {mask} are measured without periodic images; between nearest images it \
             would select {}, the first {first}",
            counts.join(" and ")
        )
    }
}

/// `1 atom more`, `3 atoms fewer`; nothing where there is none.
fn count(n: usize, than: &str) -> Option<String> {
    let atoms = if n == 1 { "atom" } else { "atoms" };
    (n > 0).then(|| format!("{n} {atoms} {than}"))
}

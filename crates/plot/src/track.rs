//! What stands along an axis of residues: chains, and their secondary structure.

use molbox_analysis::{AxisResidue, Fold};

/// A row along the horizontal axis; beside a map also along the vertical one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Track {
    /// Chains, or parts of one between which residues are missing.
    pub spans: Vec<Span>,
    /// Helices and strands.
    pub folds: Vec<Stretch>,
}

/// Residues that follow each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// Identifier of the chain.
    pub name: String,
    /// From the left edge of the first residue to the right edge of the last.
    pub range: (f64, f64),
}

/// A helix or a strand.
#[derive(Clone, Debug, PartialEq)]
pub struct Stretch {
    /// Which.
    pub fold: Fold,
    /// From the left edge of its first residue to the right edge of its last.
    pub range: (f64, f64),
}

impl Track {
    /// Of residues at their places, in ascending order within a chain.
    pub(crate) fn of<'a>(residues: impl Iterator<Item = (i64, &'a AxisResidue)>) -> Self {
        let residues: Vec<_> = residues.collect();
        let follow = |a: &(i64, &AxisResidue), b: &(i64, &AxisResidue)| {
            a.1.chain == b.1.chain && (0..=1).contains(&(b.0 - a.0))
        };
        let mut track = Self::default();
        // An ion or a ligand is not a chain.
        for run in residues.chunk_by(follow).filter(|run| run.len() > 1) {
            let name = run[0].1.chain.clone();
            track.spans.push(Span { name, range: range(run) });
            for same in run.chunk_by(|a, b| a.1.fold == b.1.fold) {
                let fold = same[0].1.fold;
                if fold != Fold::Other {
                    track.folds.push(Stretch { fold, range: range(same) });
                }
            }
        }
        track
    }

    /// The same, all of it called this.
    pub(crate) fn named(mut self, name: &str) -> Self {
        self.spans.iter_mut().for_each(|span| name.clone_into(&mut span.name));
        self
    }

    /// Where one chain ends and another begins.
    pub(crate) fn boundaries(&self) -> impl Iterator<Item = f64> {
        let next = self.spans.windows(2).filter(|two| two[0].name != two[1].name);
        next.map(|two| 0.5 * (two[0].range.1 + two[1].range.0))
    }
}

fn range(run: &[(i64, &AxisResidue)]) -> (f64, f64) {
    (run[0].0 as f64 - 0.5, run[run.len() - 1].0 as f64 + 0.5)
}

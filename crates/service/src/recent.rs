//! What was asked for last of things that never change, and take longer to read than to use.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Things by their identifiers, the last that was asked for first.
pub(crate) struct Recent<T> {
    most: usize,
    kept: Mutex<Vec<Kept<T>>>,
}

struct Kept<T> {
    id: String,
    weight: usize,
    thing: Arc<T>,
}

/// However little they weigh.
const MAX_THINGS: usize = 64;

impl<T> Recent<T> {
    /// Keeps things that together weigh no more than this.
    pub(crate) fn of_weight(most: usize) -> Self {
        Self { most, kept: Mutex::default() }
    }

    /// One that is kept.
    pub(crate) fn found(&self, id: &str) -> Option<Arc<T>> {
        let mut kept = self.kept();
        let at = kept.iter().position(|kept| kept.id == id)?;
        kept[..=at].rotate_right(1);
        Some(kept[0].thing.clone())
    }

    /// One that is kept, or is read with its weight and kept from now on.
    ///
    /// # Errors
    ///
    /// Those of reading.
    pub(crate) fn find_or_read<E>(
        &self,
        id: &str,
        read: impl FnOnce() -> Result<(Arc<T>, usize), E>,
    ) -> Result<Arc<T>, E> {
        if let Some(found) = self.found(id) {
            return Ok(found);
        }
        let (thing, weight) = read()?;
        let mut kept = self.kept();
        kept.retain(|kept| kept.id != id);
        kept.insert(0, Kept { id: id.to_owned(), weight, thing: thing.clone() });
        let mut total = 0;
        kept.retain(|kept| {
            total += kept.weight;
            total <= self.most
        });
        kept.truncate(MAX_THINGS);
        Ok(thing)
    }

    /// Forgets one that is no more.
    pub(crate) fn forget(&self, id: &str) {
        self.kept().retain(|kept| kept.id != id);
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Kept<T>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn read(recent: &Recent<usize>, id: &str, weight: usize) -> bool {
        let mut was_read = false;
        let read = || {
            was_read = true;
            Ok::<_, Infallible>((Arc::new(weight), weight))
        };
        assert_eq!(*recent.find_or_read(id, read).unwrap(), weight);
        was_read
    }

    #[test]
    fn what_was_asked_for_longest_ago_makes_room() {
        let recent = Recent::of_weight(10);
        assert!(read(&recent, "a", 4));
        assert!(read(&recent, "b", 4));
        assert!(!read(&recent, "a", 4));
        assert!(read(&recent, "c", 4));
        assert!(!read(&recent, "a", 4));
        assert!(read(&recent, "b", 4));
    }

    #[test]
    fn what_weighs_too_much_is_not_kept() {
        let recent = Recent::of_weight(10);
        assert!(read(&recent, "a", 11));
        assert!(read(&recent, "a", 11));
    }

    #[test]
    fn what_is_forgotten_is_read_again() {
        let recent = Recent::of_weight(10);
        assert!(read(&recent, "a", 1));
        recent.forget("a");
        assert!(read(&recent, "a", 1));
    }
}

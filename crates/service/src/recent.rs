//! What was asked for of late of things that never change, and take longer to read than to use.

use std::sync::Arc;

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

/// Things by their identifiers. Where there is no room for all, those that were asked for more than
/// once stay longest.
pub(crate) struct Recent<T: ?Sized>(Cache<String, Kept<T>, ByWeight>);

struct Kept<T: ?Sized> {
    weight: usize,
    thing: Arc<T>,
}

impl<T: ?Sized> Clone for Kept<T> {
    fn clone(&self) -> Self {
        Self { weight: self.weight, thing: self.thing.clone() }
    }
}

#[derive(Clone)]
struct ByWeight;

impl<T: ?Sized> Weighter<String, Kept<T>> for ByWeight {
    fn weight(&self, _: &String, kept: &Kept<T>) -> u64 {
        // One of no weight would never make room.
        kept.weight.max(1) as u64
    }
}

impl<T: ?Sized> Recent<T> {
    /// Keeps things that together weigh no more than this, about so many.
    pub(crate) fn of_weight(most: usize, things: usize) -> Self {
        let mut options = OptionsBuilder::new();
        // In one part: of several each would have a share of the room, too small for what is large.
        options.shards(1).estimated_items_capacity(things).weight_capacity(most as u64);
        let options = options.build().expect("all that has to be given is");
        Self(Cache::with_options(
            options,
            ByWeight,
            DefaultHashBuilder::default(),
            DefaultLifecycle::default(),
        ))
    }

    /// One that is kept.
    pub(crate) fn found(&self, id: &str) -> Option<Arc<T>> {
        Some(self.0.get(id)?.thing)
    }

    /// One that is kept, or is read with its weight and kept from now on. Who asks for it while
    /// another reads it waits for that.
    ///
    /// # Errors
    ///
    /// Those of reading.
    pub(crate) fn find_or_read<E>(
        &self,
        id: &str,
        read: impl FnOnce() -> Result<(Arc<T>, usize), E>,
    ) -> Result<Arc<T>, E> {
        let kept = self.0.get_or_insert_with(id, || {
            let (thing, weight) = read()?;
            Ok(Kept { weight, thing })
        })?;
        Ok(kept.thing)
    }

    /// Keeps one in the place of what there was.
    pub(crate) fn keep(&self, id: &str, thing: Arc<T>, weight: usize) {
        self.0.insert(id.to_owned(), Kept { weight, thing });
    }

    /// Forgets one that is no more.
    pub(crate) fn forget(&self, id: &str) {
        self.0.remove(id);
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
    fn what_is_kept_weighs_no_more_than_there_is_room_for() {
        let recent = Recent::of_weight(10, 4);
        assert!(read(&recent, "a", 4));
        assert!(!read(&recent, "a", 4));
        for other in ["b", "c", "d", "e"] {
            assert!(read(&recent, other, 4));
        }
        let kept = ["a", "b", "c", "d", "e"].iter().filter(|id| recent.found(id).is_some());
        assert_eq!(kept.count(), 2);
    }

    #[test]
    fn what_weighs_too_much_is_not_kept_and_what_is_large_is() {
        let recent = Recent::of_weight(10, 4);
        assert!(read(&recent, "a", 11));
        assert!(read(&recent, "a", 11));
        assert!(read(&recent, "b", 9));
        assert!(!read(&recent, "b", 9));
    }

    #[test]
    fn what_is_forgotten_is_read_again_and_what_is_kept_anew_is_that() {
        let recent = Recent::of_weight(10, 4);
        assert!(read(&recent, "a", 1));
        recent.forget("a");
        assert!(read(&recent, "a", 1));
        recent.keep("a", Arc::new(2), 2);
        assert!(!read(&recent, "a", 2));
    }
}

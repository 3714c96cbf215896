//! What of the machine tasks get: slots, CPUs, GPUs, users.

use std::collections::HashMap;

use crate::config::Config;
use crate::record::Lane;

/// What a task has of the machine while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) lane: Lane,
    pub(crate) cpus: usize,
    pub(crate) gpu: Option<u32>,
    /// Number of the user that it runs as, if it has one of its own.
    pub(crate) user: Option<u32>,
}

/// What there is, and who has it.
pub(crate) struct Capacity {
    cpus: usize,
    /// What each task of a cluster has, which does not share those of this machine.
    cpus_each: usize,
    /// The lanes whose tasks a cluster runs.
    on_cluster: Vec<Lane>,
    workers: usize,
    analyses: usize,
    gpus: Vec<u32>,
    /// The first of the users that tasks run as, if they do not run as the service's.
    first_user: Option<u32>,
    taken: HashMap<String, Share>,
}

/// Where another task of a lane can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    lane: Lane,
    /// Free slots of the lane.
    free: usize,
    gpu: Option<u32>,
}

impl Capacity {
    pub(crate) fn of(config: &Config) -> Self {
        Self {
            cpus: config.cpus(),
            cpus_each: config.tasks.slurm.cpus,
            on_cluster: Lane::ALL.into_iter().filter(|lane| config.is_on_cluster(*lane)).collect(),
            workers: config.slots(),
            analyses: config.worker.analyses,
            gpus: config.worker.gpus.clone(),
            first_user: Some(config.worker.user).filter(|user| *user > 0),
            taken: HashMap::new(),
        }
    }

    /// Slots of a lane.
    pub(crate) fn slots(&self, lane: Lane) -> usize {
        match lane {
            Lane::Workers => self.workers,
            Lane::Analyses => self.analyses,
        }
    }

    /// Where another task of a lane can run, if it can at all; not on GPUs that are held.
    pub(crate) fn place(&self, lane: Lane, is_held: impl Fn(u32) -> bool) -> Option<Place> {
        let free = self.slots(lane).saturating_sub(self.of_lane(lane).count());
        let needs_gpu = lane == Lane::Workers && !self.gpus.is_empty();
        let is_free =
            |gpu: &u32| self.taken.values().all(|share| share.gpu != Some(*gpu)) && !is_held(*gpu);
        let gpu = self.gpus.iter().copied().find(is_free).filter(|_| needs_gpu);
        (free > 0 && needs_gpu == gpu.is_some()).then_some(Place { lane, free, gpu })
    }

    /// What a task gets at a place while so many, it among them, wait for the lane.
    ///
    /// Two tasks with a CPU each get more done than one after the other with both. One that finds
    /// none free gets one all the same: it would wait for days.
    pub(crate) fn share(&self, place: Place, waiting: usize) -> Share {
        if self.on_cluster.contains(&place.lane) {
            // It runs as the user who submits it.
            return Share { lane: place.lane, cpus: self.cpus_each, gpu: None, user: None };
        }
        let used: usize = self.of_lane(place.lane).map(|share| share.cpus).sum();
        let cpus = (self.cpus.saturating_sub(used) / waiting.min(place.free)).max(1);
        Share { lane: place.lane, cpus, gpu: place.gpu, user: self.free_user() }
    }

    pub(super) fn take(&mut self, task: &str, share: Share) {
        self.taken.insert(task.to_owned(), share);
    }

    pub(super) fn give_back(&mut self, task: &str) {
        self.taken.remove(task);
    }

    /// How many tasks of a lane run.
    pub(super) fn n_running(&self, lane: Lane) -> usize {
        self.of_lane(lane).count()
    }

    fn of_lane(&self, lane: Lane) -> impl Iterator<Item = &Share> {
        self.taken.values().filter(move |share| share.lane == lane)
    }

    /// Number of a user as whom nothing runs, if tasks have users of their own.
    fn free_user(&self) -> Option<u32> {
        (self.first_user?..).find(|user| self.taken.values().all(|share| share.user != Some(*user)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capacity(gpus: &[u32]) -> Capacity {
        Capacity {
            cpus: 4,
            cpus_each: 8,
            on_cluster: Vec::new(),
            workers: 2,
            analyses: 1,
            gpus: gpus.to_vec(),
            first_user: Some(900),
            taken: HashMap::new(),
        }
    }

    #[test]
    fn cpus_are_shared_between_those_that_wait_and_what_ends_gives_its_share_back() {
        let mut capacity = capacity(&[]);
        let place = |capacity: &Capacity| capacity.place(Lane::Workers, |_| false);
        let first = capacity.share(place(&capacity).unwrap(), 5);
        assert_eq!(first, Share { lane: Lane::Workers, cpus: 2, gpu: None, user: Some(900) });
        capacity.take("one", first);
        let second = capacity.share(place(&capacity).unwrap(), 1);
        assert_eq!((second.cpus, second.user), (2, Some(901)));
        capacity.take("two", second);
        assert_eq!(place(&capacity), None);
        // The lane of analyses has slots of its own, and CPUs when workers have them all.
        let analysis = capacity.share(capacity.place(Lane::Analyses, |_| false).unwrap(), 1);
        assert_eq!((analysis.cpus, analysis.user), (4, Some(902)));
        capacity.give_back("one");
        assert_eq!(capacity.share(place(&capacity).unwrap(), 1).user, Some(900));
    }

    #[test]
    fn a_worker_of_a_cluster_has_its_own_cpus_and_this_machine_s_are_for_analyses() {
        let on_cluster = vec![Lane::Workers];
        let mut capacity = Capacity { on_cluster, workers: 100, ..capacity(&[]) };
        for task in ["one", "two"] {
            let share = capacity.share(capacity.place(Lane::Workers, |_| false).unwrap(), 1);
            assert_eq!(share, Share { lane: Lane::Workers, cpus: 8, gpu: None, user: None });
            capacity.take(task, share);
        }
        let analysis = capacity.share(capacity.place(Lane::Analyses, |_| false).unwrap(), 1);
        assert_eq!((analysis.cpus, analysis.user), (4, Some(900)));
    }

    #[test]
    fn a_worker_needs_a_gpu_that_is_neither_taken_nor_held() {
        let mut capacity = capacity(&[3, 5]);
        let gpu = |capacity: &Capacity, held: u32| {
            let place = capacity.place(Lane::Workers, |gpu| gpu == held)?;
            capacity.share(place, 1).gpu
        };
        assert_eq!(gpu(&capacity, 0), Some(3));
        assert_eq!(gpu(&capacity, 3), Some(5));
        let place = capacity.place(Lane::Workers, |_| false).unwrap();
        capacity.take("one", capacity.share(place, 1));
        assert_eq!(gpu(&capacity, 0), Some(5));
        assert_eq!(gpu(&capacity, 5), None);
        assert_eq!(capacity.place(Lane::Workers, |gpu| gpu == 5), None);
        let analysis = capacity.place(Lane::Analyses, |_| true).unwrap();
        assert_eq!(capacity.share(analysis, 1).gpu, None);
    }
}

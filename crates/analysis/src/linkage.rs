//! Clusters of things of which all distances to each other are known.

use std::cmp::Reverse;

/// Distances between `n` things, each pair once.
#[derive(Clone, Debug)]
pub(crate) struct Distances {
    n: usize,
    /// Of (0, 1), (0, 2), … (1, 2), …
    pairs: Vec<f64>,
}

/// What the distance of two clusters is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linkage {
    /// The mean over all pairs of members (UPGMA, Sokal and Michener 1958).
    Average,
    /// The largest of any pair of members.
    Complete,
    /// The smallest of any pair of members.
    Single,
}

/// Where a tree of clusters is cut.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cut {
    /// Clusters are joined as long as their distance is at most this.
    Distance(f64),
    /// Clusters are joined until so many are left.
    Count(usize),
}

impl Distances {
    /// Rows (0, 1…), (1, 2…) and so on, one after the other.
    pub(crate) fn new(n: usize, pairs: Vec<f64>) -> Self {
        debug_assert_eq!(pairs.len(), n * n.saturating_sub(1) / 2);
        Self { n, pairs }
    }

    pub(crate) fn n(&self) -> usize {
        self.n
    }

    pub(crate) fn pairs(&self) -> &[f64] {
        &self.pairs
    }

    fn index(&self, i: usize, j: usize) -> usize {
        let low = i.min(j);
        let high = i.max(j);
        low * (2 * self.n - low - 1) / 2 + high - low - 1
    }

    pub(crate) fn get(&self, i: usize, j: usize) -> f64 {
        if i == j { 0.0 } else { self.pairs[self.index(i, j)] }
    }

    /// The cluster of each thing, by a tree that joins the two closest clusters again and again.
    /// Clusters are numbered from 0 by [`by_size`].
    pub(crate) fn hierarchical(&self, linkage: Linkage, cut: Cut) -> Vec<usize> {
        let mut joins = self.joins(linkage);
        joins.sort_by(|a, b| a.0.total_cmp(&b.0));
        let n_joins = match cut {
            Cut::Distance(most) => joins.partition_point(|(height, ..)| *height <= most),
            Cut::Count(count) => self.n.saturating_sub(count.max(1)),
        };
        let mut parent: Vec<usize> = (0..self.n).collect();
        for (_, a, b) in &joins[..n_joins] {
            let a = root(&mut parent, *a);
            let b = root(&mut parent, *b);
            parent[a.max(b)] = a.min(b);
        }
        by_size((0..self.n).map(|k| root(&mut parent, k)).collect())
    }

    /// All joins of the tree: at which distance, and a member of each of the two.
    ///
    /// Each cluster is followed to its nearest, that to its own, and so on, until two are nearest
    /// to each other (Murtagh, Comput. J. 26, 354, 1983): n² steps in all, which gives the same
    /// tree as joining the closest two first, for linkages whose distances never shrink by joining.
    fn joins(&self, linkage: Linkage) -> Vec<(f64, usize, usize)> {
        let mut distances = self.clone();
        let mut sizes = vec![1.0; self.n];
        let mut is_left = vec![true; self.n];
        let mut joins = Vec::with_capacity(self.n.saturating_sub(1));
        let mut chain: Vec<usize> = Vec::new();
        while joins.len() + 1 < self.n {
            if chain.is_empty() {
                chain.extend(is_left.iter().position(|is_left| *is_left));
            }
            let last = chain[chain.len() - 1];
            let before = chain.len().checked_sub(2).map(|k| chain[k]);
            // Where several are as close, the one before, so that no chain turns in a circle.
            let mut nearest = before.map(|before| (distances.get(last, before), before));
            for other in (0..self.n).filter(|other| is_left[*other] && *other != last) {
                let distance = distances.get(last, other);
                if nearest.is_none_or(|(least, _)| distance < least) {
                    nearest = Some((distance, other));
                }
            }
            let Some((height, next)) = nearest else { break };
            if before != Some(next) {
                chain.push(next);
                continue;
            }
            chain.truncate(chain.len() - 2);
            joins.push((height, last, next));
            let (kept, gone) = (last.min(next), last.max(next));
            is_left[gone] = false;
            for other in (0..self.n).filter(|other| is_left[*other] && *other != kept) {
                let a = distances.get(kept, other);
                let b = distances.get(gone, other);
                let joined = match linkage {
                    Linkage::Average => {
                        (sizes[kept] * a + sizes[gone] * b) / (sizes[kept] + sizes[gone])
                    }
                    Linkage::Complete => a.max(b),
                    Linkage::Single => a.min(b),
                };
                let index = distances.index(kept, other);
                distances.pairs[index] = joined;
            }
            sizes[kept] += sizes[gone];
        }
        joins
    }

    /// The cluster of each thing, by the method of Daura and others (Angew. Chem. Int. Ed. 38,
    /// 236, 1999), known as `gromos`: the thing with the most neighbours within the cutoff, the
    /// bound included, makes a cluster with them; these are taken out, and so on.
    pub(crate) fn by_neighbours(&self, cutoff: f64) -> Vec<usize> {
        let near = |i: usize, j: usize| self.get(i, j) <= cutoff;
        let mut n_near: Vec<usize> =
            (0..self.n).map(|i| (0..self.n).filter(|j| near(i, *j)).count()).collect();
        let mut cluster = vec![usize::MAX; self.n];
        let is_left = |cluster: &[usize], k: usize| cluster[k] == usize::MAX;
        for number in 0..self.n {
            let left = (0..self.n).filter(|k| is_left(&cluster, *k));
            let Some(centre) = left.min_by_key(|k| (Reverse(n_near[*k]), *k)) else { break };
            let members: Vec<usize> =
                (0..self.n).filter(|k| is_left(&cluster, *k) && near(centre, *k)).collect();
            for member in &members {
                cluster[*member] = number;
            }
            for member in members {
                for other in (0..self.n).filter(|other| near(member, *other)) {
                    n_near[other] -= 1;
                }
            }
        }
        by_size(cluster)
    }

    /// The member with the least sum of distances to the others; the first of several.
    pub(crate) fn medoid(&self, members: &[usize]) -> usize {
        let sum = |k: usize| members.iter().map(|other| self.get(k, *other)).sum::<f64>();
        let mut best = (f64::INFINITY, members[0]);
        for member in members {
            let sum = sum(*member);
            if sum < best.0 {
                best = (sum, *member);
            }
        }
        best.1
    }
}

/// Clusters numbered from 0, the largest first, of equal ones the one that begins first.
fn by_size(clusters: Vec<usize>) -> Vec<usize> {
    let n = clusters.iter().max().map_or(0, |most| most + 1);
    let mut sizes = vec![(0_usize, usize::MAX); n];
    for (k, cluster) in clusters.iter().enumerate() {
        sizes[*cluster].0 += 1;
        sizes[*cluster].1 = sizes[*cluster].1.min(k);
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by_key(|cluster| (Reverse(sizes[*cluster].0), sizes[*cluster].1));
    let mut rank = vec![0; n];
    order.into_iter().enumerate().for_each(|(place, cluster)| rank[cluster] = place);
    clusters.into_iter().map(|cluster| rank[cluster]).collect()
}

fn root(parent: &mut [usize], mut k: usize) -> usize {
    while parent[k] != k {
        parent[k] = parent[parent[k]];
        k = parent[k];
    }
    k
}

#[cfg(test)]
mod tests {
    use super::{Cut, Distances, Linkage};

    fn on_a_line(places: &[f64]) -> Distances {
        let n = places.len();
        let pairs = (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j)));
        Distances::new(n, pairs.map(|(i, j)| (places[i] - places[j]).abs()).collect())
    }

    #[test]
    fn linkages_differ_where_a_chain_of_points_does() {
        let line = on_a_line(&[0.0, 1.0, 2.1, 3.3, 10.0]);
        let cut = Cut::Distance(1.5);
        assert_eq!(line.hierarchical(Linkage::Single, cut), [0, 0, 0, 0, 1]);
        assert_eq!(line.hierarchical(Linkage::Complete, cut), [0, 0, 1, 1, 2]);
        assert_eq!(line.hierarchical(Linkage::Average, Cut::Distance(2.2)), [0, 0, 0, 0, 1]);
        assert_eq!(line.hierarchical(Linkage::Average, Cut::Count(3)), [0, 0, 1, 1, 2]);
        assert_eq!(line.hierarchical(Linkage::Average, Cut::Count(1)), [0; 5]);
        assert_eq!(line.hierarchical(Linkage::Average, Cut::Count(9)), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn the_point_with_most_neighbours_makes_the_first_cluster() {
        let line = on_a_line(&[9.0, 0.0, 1.0, 2.0, 8.5, 3.0]);
        assert_eq!(line.by_neighbours(1.0), [1, 0, 0, 0, 1, 2]);
        assert_eq!(line.medoid(&[1, 2, 3]), 2);
    }
}

//! Whether any of a set of points is near another: a k-d tree in an array.

/// Points ordered so that the middle one of every slice parts the others by one coordinate, x, y
/// and z in turn.
pub(super) struct Points(Vec<[f64; 3]>);

/// Slices this short are searched from end to end.
const LEAF: usize = 8;

impl Points {
    pub(super) fn new(mut points: Vec<[f64; 3]>) -> Self {
        part(&mut points, 0);
        Self(points)
    }

    /// Whether a point is closer to `to` than `cutoff`.
    pub(super) fn any_within(&self, to: [f64; 3], cutoff: f64) -> bool {
        any_within(&self.0, 0, to, cutoff * cutoff)
    }
}

fn part(points: &mut [[f64; 3]], axis: usize) {
    if points.len() <= LEAF {
        return;
    }
    let (lower, _, upper) =
        points.select_nth_unstable_by(points.len() / 2, |a, b| a[axis].total_cmp(&b[axis]));
    part(lower, (axis + 1) % 3);
    part(upper, (axis + 1) % 3);
}

fn any_within(points: &[[f64; 3]], axis: usize, to: [f64; 3], cutoff_2: f64) -> bool {
    if points.len() <= LEAF {
        return points.iter().any(|point| distance_2(*point, to) < cutoff_2);
    }
    let (lower, upper) = points.split_at(points.len() / 2);
    let middle = upper[0];
    let upper = &upper[1..];
    let offset = to[axis] - middle[axis];
    let (this, other) = if offset < 0.0 { (lower, upper) } else { (upper, lower) };
    let next = (axis + 1) % 3;
    distance_2(middle, to) < cutoff_2
        || any_within(this, next, to, cutoff_2)
        || offset * offset < cutoff_2 && any_within(other, next, to, cutoff_2)
}

fn distance_2(a: [f64; 3], b: [f64; 3]) -> f64 {
    let [x, y, z] = [a[0] - b[0], a[1] - b[1], a[2] - b[2]];
    x * x + y * y + z * z
}

#[cfg(test)]
mod tests {
    use super::{Points, distance_2};

    #[test]
    fn the_tree_finds_what_a_search_of_all_finds() {
        let mut state = 1_u32;
        let mut coordinate = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f64::from(state >> 24) / 8.0
        };
        let mut point = || [coordinate(), coordinate(), coordinate()];
        let points: Vec<_> = (0..500).map(|_| point()).collect();
        let tree = Points::new(points.clone());
        for _ in 0..500 {
            let (to, cutoff) = (point(), point()[0]);
            let expected = points.iter().any(|p| distance_2(*p, to) < cutoff * cutoff);
            assert_eq!(tree.any_within(to, cutoff), expected);
        }
        assert!(!tree.any_within([f64::NAN; 3], 1e9));
    }
}

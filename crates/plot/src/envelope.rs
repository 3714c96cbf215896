//! Long lines with fewer points that look the same.

/// Points for each unit of length above which a line is thinned: so many are drawn of each column
/// anyway.
const POINTS_PER_COLUMN: usize = 4;

/// Of each column of a picture `width` wide the first point, the last, the lowest and the highest,
/// which are all that can be seen of a line (Jugel and others, Proc. VLDB Endow. 7, 797, 2014).
/// Lines that do not run from left to right, and short ones, stay as they are.
pub(crate) fn envelope(points: &[(f64, f64)], width: f64) -> Vec<(f64, f64)> {
    let n_columns = width.ceil() as usize;
    let is_long = points.len() > POINTS_PER_COLUMN * n_columns;
    if !is_long || !points.is_sorted_by(|a, b| a.0 <= b.0) {
        return points.to_vec();
    }
    let first = points[0].0;
    let last = points[points.len() - 1].0;
    let column = |x: f64| ((x - first) / (last - first) * n_columns as f64) as usize;
    let mut kept = Vec::with_capacity(POINTS_PER_COLUMN * (n_columns + 1));
    for of_column in points.chunk_by(|a, b| column(a.0) == column(b.0)) {
        // The first and the last keep the lines from one column to the next where they were.
        let mut low = 0;
        let mut high = 0;
        for (n, (_, y)) in of_column.iter().enumerate() {
            if y.total_cmp(&of_column[low].1).is_lt() {
                low = n;
            }
            if y.total_cmp(&of_column[high].1).is_ge() {
                high = n;
            }
        }
        let mut seen = vec![0, low, high, of_column.len() - 1];
        seen.sort_unstable();
        seen.dedup();
        kept.extend(seen.into_iter().map(|n| of_column[n]));
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::envelope;

    #[test]
    fn no_peak_is_lost_and_no_point_made_up() {
        let noise = |n: u32| f64::from(n.wrapping_mul(2_654_435_761) >> 8) / f64::from(1 << 24);
        let mut points: Vec<(f64, f64)> =
            (0..100_000).map(|n| (f64::from(n) * 0.002, noise(n))).collect();
        points[54_321].1 = 7.38;
        points[12_345].1 = -3.1;
        let thin = envelope(&points, 900.0);
        assert!(thin.len() <= 4 * 901, "{}", thin.len());
        assert!(
            thin.is_sorted_by(|a, b| a.0 < b.0) && thin.iter().all(|point| points.contains(point))
        );
        assert!(thin.contains(&points[54_321]) && thin.contains(&points[12_345]));
        assert_eq!((thin[0], thin[thin.len() - 1]), (points[0], points[99_999]));
    }

    #[test]
    fn short_and_crooked_lines_stay() {
        let short: Vec<_> = (0..100).map(|n| (f64::from(n), 1.0)).collect();
        assert_eq!(envelope(&short, 900.0), short);
        let crooked: Vec<_> = (0..10_000).map(|n| (f64::from(n % 7), f64::from(n))).collect();
        assert_eq!(envelope(&crooked, 90.0), crooked);
        let steep = vec![(1.0, 2.0); 10_000];
        assert_eq!(envelope(&steep, 90.0).len(), 2);
    }
}

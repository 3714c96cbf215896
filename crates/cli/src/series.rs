//! What a stage of a simulation has logged: CSV with names and units in its first line.

/// A column of a log.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Column {
    /// As the first line has it: `density (g/mL)`.
    pub(crate) name: String,
    pub(crate) quantity: String,
    /// Empty where the name has none.
    pub(crate) unit: String,
    /// A row each; not a number where the log has none.
    pub(crate) values: Vec<f64>,
}

impl Column {
    fn of(name: &str) -> Self {
        let name = name.trim_matches(['#', '"', ' ']).to_owned();
        let (quantity, unit) = match name.strip_suffix(')').and_then(|it| it.split_once(" (")) {
            Some((quantity, unit)) => (quantity.to_owned(), unit.to_owned()),
            None => (name.clone(), String::new()),
        };
        Self { name, quantity, unit, values: Vec::new() }
    }

    /// Whether it says when a row was written, and not what was measured then.
    pub(crate) fn is_abscissa(&self) -> bool {
        ["step", "time"].contains(&self.quantity.as_str())
    }

    /// Its numbers.
    pub(crate) fn finite(&self) -> Vec<f64> {
        self.values.iter().copied().filter(|value| value.is_finite()).collect()
    }
}

/// The columns of a log.
pub(crate) fn columns(log: &str) -> Vec<Column> {
    let mut lines = log.lines();
    let names = lines.next().unwrap_or_default().split(',');
    let mut columns: Vec<Column> = names.map(Column::of).collect();
    for line in lines.filter(|line| !line.trim().is_empty()) {
        let mut cells = line.split(',').map(|cell| cell.trim().parse().unwrap_or(f64::NAN));
        columns.iter_mut().for_each(|column| column.values.push(cells.next().unwrap_or(f64::NAN)));
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::columns;

    #[test]
    fn a_cell_without_a_number_leaves_the_rows_together() {
        let log = "#\"step\",time (ps),density (g/mL)\n1,0.5,--\n2,1.0,0.98\n3,1.5\n";
        let [step, time, density] = columns(log).try_into().unwrap();
        assert!(step.is_abscissa() && time.is_abscissa() && !density.is_abscissa());
        assert_eq!((density.quantity.as_str(), density.unit.as_str()), ("density", "g/mL"));
        assert_eq!((density.values.len(), density.values[1]), (3, 0.98));
        assert_eq!(density.finite(), [0.98]);
    }
}

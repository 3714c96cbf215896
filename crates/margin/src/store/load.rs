//! Reading market data, with a file and a line for everything that is wrong.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::{Contract, ReturnType, Series, Store};
use crate::Date;
use crate::error::{Error, FileError, MAX_LISTED};
use crate::returns;

/// A file of market data that is in memory.
#[derive(Clone, Copy, Debug)]
pub struct File<'a> {
    /// Its name, for errors.
    pub name: &'a str,
    /// What is in it.
    pub bytes: &'a [u8],
}

impl Store {
    /// Market data of a folder: `contracts.csv`, `prices.csv` (without it, every `.csv` of the
    /// folder `prices`, by name), and `fx.csv` if there is one.
    ///
    /// # Errors
    ///
    /// [`Error::Read`], and [`Error::MarketData`] for what [`Self::parse`] finds.
    pub fn load(folder: &Path, base_currency: &str) -> Result<Self, Error> {
        let contracts = Read::required(folder.join("contracts.csv"))?;
        let prices = match Read::optional(folder.join("prices.csv"))? {
            Some(prices) => vec![prices],
            None => Read::folder(&folder.join("prices"))?,
        };
        let fx = Read::optional(folder.join("fx.csv"))?;
        let prices: Vec<_> = prices.iter().map(Read::file).collect();
        Self::parse(contracts.file(), &prices, fx.as_ref().map(Read::file), base_currency)
    }

    /// Market data of files in memory.
    ///
    /// Columns are found by name, rows come in any order. Contracts: `ticker`, `currency`,
    /// `multiplier`, `returnType`, `riskFactor` (empty: itself), `lastTradeDate` (may be empty).
    /// Prices: `date`, `ticker`, `settle` (empty: none on that day). Exchange rates: `date`,
    /// `currency`, `rate` in units of `base_currency` per unit.
    ///
    /// # Errors
    ///
    /// [`Error::MarketData`] for columns that are missing, rows that are repeated or cannot be
    /// read, and tickers that are not in the contracts.
    pub fn parse(
        contracts: File<'_>,
        prices: &[File<'_>],
        fx: Option<File<'_>>,
        base_currency: &str,
    ) -> Result<Self, Error> {
        let mut reading = Reading { errors: Vec::new(), calendars: HashSet::new() };
        let (listed, by_ticker) = reading.contracts(contracts);
        if !reading.errors.is_empty() {
            return Err(Error::MarketData(reading.errors));
        }
        let settlements = reading.prices(prices, &listed, &by_ticker);
        let rates = fx.map(|fx| reading.rates(fx, base_currency)).unwrap_or_default();
        let linked = reading.link(contracts, listed, settlements, &by_ticker);
        if !reading.errors.is_empty() {
            return Err(Error::MarketData(reading.errors));
        }
        let mut hash = Sha256::new();
        for file in [contracts].iter().chain(prices).chain(&fx) {
            hash.update(file.bytes);
        }
        let sha256 = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self {
            contracts: linked,
            by_ticker,
            rates,
            base_currency: base_currency.into(),
            sha256,
        })
    }
}

/// A file that was read.
struct Read {
    name: String,
    bytes: Vec<u8>,
}

impl Read {
    fn required(path: PathBuf) -> Result<Self, Error> {
        let name = path.display().to_string();
        fs::read(&path)
            .map(|bytes| Self { name, bytes })
            .map_err(|source| Error::Read { path, source })
    }

    fn optional(path: PathBuf) -> Result<Option<Self>, Error> {
        match Self::required(path) {
            Err(Error::Read { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        }
    }

    fn folder(folder: &Path) -> Result<Vec<Self>, Error> {
        let mut paths =
            list(folder).map_err(|source| Error::Read { path: folder.to_owned(), source })?;
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "csv"));
        paths.sort();
        paths.into_iter().map(Self::required).collect()
    }

    fn file(&self) -> File<'_> {
        File { name: &self.name, bytes: &self.bytes }
    }
}

fn list(folder: &Path) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect()
}

/// A row of contracts.csv.
struct Listed {
    line: u64,
    ticker: Arc<str>,
    currency: Arc<str>,
    size: f64,
    return_type: ReturnType,
    risk_factor: Option<String>,
    last_trade_date: Option<Date>,
}

/// A value, and where it was read.
struct Dated {
    day: Date,
    value: f64,
    file: usize,
    line: u64,
}

type Tickers = HashMap<Arc<str>, usize>;

/// Market data that is being read.
struct Reading {
    errors: Vec<FileError>,
    /// The different sequences of days so far.
    calendars: HashSet<Arc<[Date]>>,
}

impl Reading {
    fn complain(&mut self, file: File<'_>, line: u64, problem: impl Into<String>) {
        if self.errors.len() < MAX_LISTED {
            self.errors.push(FileError {
                file: file.name.to_owned(),
                line,
                problem: problem.into(),
            });
        }
    }

    /// Calls `read` with the line number and the fields of `columns` for every row of a file.
    fn rows<const N: usize>(
        &mut self,
        file: File<'_>,
        columns: [&str; N],
        mut read: impl FnMut(u64, [&str; N]) -> Result<(), String>,
    ) {
        let mut reader = csv::Reader::from_reader(file.bytes);
        let header = match reader.headers() {
            Ok(header) => header.clone(),
            Err(error) => return self.complain(file, 1, csv_problem(&error)),
        };
        let mut places = [0; N];
        for (place, column) in places.iter_mut().zip(columns) {
            let mut named = header.iter().enumerate().filter(|(_, name)| name.trim() == column);
            match (named.next(), named.next()) {
                (Some((n, _)), None) => *place = n,
                (None, _) => {
                    let is_of_others = header.len() == 1 && header[0].contains([';', '\t']);
                    let why =
                        if is_of_others { ": commas have to separate the columns" } else { "" };
                    return self.complain(file, 1, format!("no column {column}{why}"));
                }
                (_, Some(_)) => return self.complain(file, 1, format!("two columns {column}")),
            }
        }
        let mut record = csv::StringRecord::new();
        loop {
            let start = reader.position().clone();
            let read = match reader.read_record(&mut record) {
                Ok(false) => return,
                Ok(true) => read(line_after(&start, file), places.map(|n| record[n].trim())),
                Err(error) => Err(csv_problem(&error)),
            };
            if let Err(problem) = read {
                self.complain(file, line_after(&start, file), problem);
            }
        }
    }

    fn contracts(&mut self, file: File<'_>) -> (Vec<Listed>, Tickers) {
        let mut listed: Vec<Listed> = Vec::new();
        let mut by_ticker = Tickers::new();
        let columns =
            ["ticker", "currency", "multiplier", "returnType", "riskFactor", "lastTradeDate"];
        self.rows(
            file,
            columns,
            |line, [ticker, currency, size, return_type, risk_factor, last_trade_date]| {
                let contract = Listed {
                    line,
                    ticker: name(ticker)?,
                    currency: name(currency)?,
                    size: above_zero(size)?,
                    return_type: match return_type {
                        "log" => ReturnType::Log,
                        "absolute" => ReturnType::Absolute,
                        _ => {
                            return Err(format!(
                                "returnType {return_type:?} is not log or absolute"
                            ));
                        }
                    },
                    risk_factor: (!risk_factor.is_empty()).then(|| risk_factor.to_owned()),
                    last_trade_date: if last_trade_date.is_empty() {
                        None
                    } else {
                        Some(date(last_trade_date)?)
                    },
                };
                if let Some(&first) = by_ticker.get(ticker) {
                    return Err(format!(
                        "{ticker} again, the first is on line {}",
                        listed[first].line
                    ));
                }
                by_ticker.insert(contract.ticker.clone(), listed.len());
                listed.push(contract);
                Ok(())
            },
        );
        (listed, by_ticker)
    }

    /// Settlements of every contract.
    fn prices(
        &mut self,
        files: &[File<'_>],
        listed: &[Listed],
        by_ticker: &Tickers,
    ) -> Vec<Series> {
        let mut rows: Vec<Vec<Dated>> = listed.iter().map(|_| Vec::new()).collect();
        for (n_file, file) in files.iter().enumerate() {
            self.rows(*file, ["date", "ticker", "settle"], |line, [day, ticker, settle]| {
                let day = date(day)?;
                let contract = by_ticker
                    .get(ticker)
                    .ok_or_else(|| format!("{ticker:?} is not in the contracts"))?;
                if !settle.is_empty() {
                    rows[*contract].push(Dated { day, value: number(settle)?, file: n_file, line });
                }
                Ok(())
            });
        }
        rows.into_iter()
            .zip(listed)
            .map(|(rows, listed)| self.series(rows, &listed.ticker, files))
            .collect()
    }

    fn rates(&mut self, file: File<'_>, base_currency: &str) -> BTreeMap<String, Series> {
        let mut rows: BTreeMap<String, Vec<Dated>> = BTreeMap::new();
        self.rows(file, ["date", "currency", "rate"], |line, [day, currency, rate]| {
            let dated = Dated { day: date(day)?, value: above_zero(rate)?, file: 0, line };
            if currency == base_currency && dated.value != 1.0 {
                return Err(format!("{currency} is the base currency, its rate is 1"));
            }
            rows.entry(currency.to_owned()).or_default().push(dated);
            Ok(())
        });
        let named = rows.into_iter();
        named
            .map(|(currency, rows)| (currency.clone(), self.series(rows, &currency, &[file])))
            .collect()
    }

    /// Rows in the order of their days, each day once.
    fn series(&mut self, mut rows: Vec<Dated>, of: &str, files: &[File<'_>]) -> Series {
        rows.sort_by_key(|row| row.day);
        for pair in rows.windows(2) {
            if let [first, second] = pair
                && first.day == second.day
            {
                let at = format!("{}:{}", files[first.file].name, first.line);
                let problem = format!("{of} on {} again, the first is at {at}", second.day);
                self.complain(files[second.file], second.line, problem);
            }
        }
        let (days, values) = rows.iter().map(|row| (row.day, row.value)).unzip();
        self.share(days, values)
    }

    /// A series that shares its days with those that have the same.
    fn share(&mut self, days: Vec<Date>, values: Vec<f64>) -> Series {
        // Futures of one exchange have the same days; sharing them took 3 ms off a margin.
        let days = self.calendars.get(&days[..]).cloned().unwrap_or_else(|| days.into());
        self.calendars.insert(days.clone());
        Series { days, values }
    }

    /// Contracts with their prices and the returns of their risk factors, which they share.
    fn link(
        &mut self,
        file: File<'_>,
        listed: Vec<Listed>,
        settlements: Vec<Series>,
        by_ticker: &Tickers,
    ) -> Vec<Contract> {
        // With the days of prices that have no logarithm.
        type Returns = (Arc<Series>, Arc<[Date]>);
        let mut known: HashMap<(usize, ReturnType), Returns> = HashMap::new();
        let mut of_contract = Vec::with_capacity(listed.len());
        for contract in &listed {
            let factor = contract.risk_factor.as_deref().unwrap_or(&contract.ticker);
            let Some(&factor) = by_ticker.get(factor) else {
                self.complain(
                    file,
                    contract.line,
                    format!("riskFactor {factor:?} is not in the contracts"),
                );
                continue;
            };
            let returns = known.entry((factor, contract.return_type)).or_insert_with(|| {
                let (days, values) = returns::daily(&settlements[factor], contract.return_type);
                let missing =
                    returns::without_logarithm(&settlements[factor], contract.return_type);
                (Arc::new(self.share(days, values)), missing.into())
            });
            let (returns, no_logarithm) = returns.clone();
            of_contract.push((listed[factor].ticker.clone(), returns, no_logarithm));
        }
        let parts = listed.into_iter().zip(settlements).zip(of_contract);
        parts
            .map(|((listed, settlements), (risk_factor, returns, no_logarithm))| Contract {
                ticker: listed.ticker,
                currency: listed.currency,
                size: listed.size,
                return_type: listed.return_type,
                risk_factor,
                last_trade_date: listed.last_trade_date,
                settlements,
                returns,
                no_logarithm,
            })
            .collect()
    }
}

/// The line of the record after `position`, which is that of the empty lines before it.
fn line_after(position: &csv::Position, file: File<'_>) -> u64 {
    let rest = &file.bytes[position.byte() as usize..];
    let empty =
        rest.iter().take_while(|byte| matches!(byte, b'\n' | b'\r')).filter(|byte| **byte == b'\n');
    position.line() + empty.count() as u64
}

fn csv_problem(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("{len} fields, the header has {expected_len}")
        }
        csv::ErrorKind::Utf8 { .. } => "not UTF-8".to_owned(),
        _ => error.to_string(),
    }
}

fn name(text: &str) -> Result<Arc<str>, String> {
    let is_name = !text.is_empty() && !text.contains(char::is_control);
    if is_name { Ok(text.into()) } else { Err(format!("{text:?} is not a name")) }
}

fn date(text: &str) -> Result<Date, String> {
    text.parse().map_err(|_| format!("{text:?} is not a date YYYY-MM-DD"))
}

fn number(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| format!("{text:?} is not a number"))
}

fn above_zero(text: &str) -> Result<f64, String> {
    let number = number(text)?;
    if number > 0.0 { Ok(number) } else { Err(format!("{text} is not above zero")) }
}

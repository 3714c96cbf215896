//! `FpML` 5: trades in futures.
//!
//! `FpML` has no position in a future. It has trades in an underlying asset that may be a `future`,
//! and those are the positions, whatever wraps them (`dataDocument`, `executionNotification`,
//! `positionReport`), in any view. A trade in anything else is refused, since the margin without
//! it would be that of another portfolio.

use serde_json::{Value, json};

use super::position::Positions;
use super::xml::{Element, Elements};
use crate::check::{Place, ValueError};
use crate::error::Loc;
use crate::schema::Part;

const NAMESPACE: &str = "http://www.fpml.org/FpML-5/";

enum Kept {
    OnBehalfOf,
    Trade,
    Constituent,
    /// What looks like a position and is not read as one.
    Uncounted,
}

/// A trade that is no position, and the field that shows it; none for the trade as a whole.
type Refused = (Option<&'static str>, ValueError);

pub(super) fn read(text: &str, positions: &mut Positions<'_>) -> Result<Value, ValueError> {
    let (root, mut elements) = Elements::open(text)?;
    if !root.attributes.iter().any(|(_, value)| value.starts_with(NAMESPACE)) {
        return Err(elements.unreadable(&format!("the root has no namespace {NAMESPACE}…")));
    }
    let mut own_party = None;
    while let Some((kept, element)) = elements.next(|path| match path.rsplit('/').next() {
        Some("onBehalfOf") => Some(Kept::OnBehalfOf),
        Some("trade") => Some(Kept::Trade),
        Some("constituent") => Some(Kept::Constituent),
        Some(name) if is_uncounted(path, name) => Some(Kept::Uncounted),
        _ => None,
    })? {
        let trade = match kept {
            Kept::OnBehalfOf if own_party.is_some() || positions.n_read > 0 => {
                return Err(elements.unreadable("onBehalfOf has to come once, before the trades"));
            }
            Kept::OnBehalfOf => {
                own_party = reference(&element, &["partyReference"]).map(str::to_owned);
                continue;
            }
            Kept::Trade => Some(&element),
            Kept::Constituent if element.all("trade").count() > 1 => {
                let error = ValueError::new("value_error", "a constituent has to hold one trade");
                positions.refuse(&[], error);
                continue;
            }
            Kept::Constituent => element.at(&["trade"]),
            Kept::Uncounted => {
                let msg = format!("<{}> is not in a trade, and would not count", element.name);
                positions.refuse(&[], ValueError::new("value_error", msg));
                continue;
            }
        };
        let read = match trade {
            Some(trade) => position(trade, own_party.as_deref(), positions),
            None => Err((
                None,
                ValueError::new(
                    "value_error",
                    "a constituent has to hold its trade, not refer to it",
                ),
            )),
        };
        match read {
            Ok(fields) => positions.push(&fields),
            Err((field, error)) => {
                positions.refuse(&field.map(Loc::Field).into_iter().collect::<Vec<_>>(), error)
            }
        }
    }
    if positions.n_read == 0 {
        let msg = "no futures in the document: it has no trade";
        let error = ValueError::new("value_error.missing", msg);
        positions.violations.add(Place::Portfolio, &["futures".into()], error);
    }
    Ok(json!({ "futures": [] }))
}

/// A future that stands in a portfolio and not in a trade, and a trade whose name is written in
/// another way. Elsewhere a future may be one that only has a price.
fn is_uncounted(path: &str, name: &str) -> bool {
    let is_other = |word: &str| name != word && name.eq_ignore_ascii_case(word);
    let within = path.rsplit('/').nth(1).unwrap_or_default();
    is_other("trade")
        || is_other("constituent")
        || (name.eq_ignore_ascii_case("future")
            && ["portfolio", "futures"].iter().any(|parent| within.eq_ignore_ascii_case(parent)))
}

fn position(
    trade: &Element,
    own_party: Option<&str>,
    positions: &Positions<'_>,
) -> Result<Value, Refused> {
    let (details, future) = instrument(trade)?;
    let own_party = own_party
        .or_else(|| reference(trade, &["tradeHeader", "partyTradeIdentifier", "partyReference"]));
    let is_own = |role| own_party.is_some() && reference(details, &[role]) == own_party;
    let side = match (is_own("buyerPartyReference"), is_own("sellerPartyReference")) {
        (true, false) => "long",
        (false, true) => "short",
        _ => {
            return refused(
                Some("type"),
                "the own party is not one of buyer and seller".to_owned(),
            );
        }
    };

    let known = names(future)
        .find_map(|name| positions.store.find(name))
        .map(|known| &positions.store.contracts()[known]);
    if let Some(contract) = known {
        if text(future, &["currency"])
            .is_some_and(|currency| currency.trim() != &*contract.currency)
        {
            return refused(
                Some("currency"),
                format!("{} is in {}", contract.ticker, contract.currency),
            );
        }
        if text(future, &["multiplier"])
            .is_some_and(|multiplier| multiplier.trim().parse() != Ok(contract.size))
        {
            return refused(
                Some("multiplier"),
                format!("the multiplier of {} is {}", contract.ticker, contract.size),
            );
        }
    }

    let fields = [
        ("ticker", known.map(|contract| &*contract.ticker).or_else(|| names(future).next())),
        ("type", Some(side)),
        ("quantity", text(details, &["quantity", "number"])),
        ("entryDate", text(trade, &["tradeHeader", "tradeDate"]).map(without_zone)),
        ("entryPrice", price(details)?),
    ];
    let read = fields.into_iter().filter_map(|(field, text)| {
        let (name, part) = Part::Position.field(field)?;
        Some((name.to_owned(), part.of_text(text?)))
    });
    Ok(Value::Object(read.collect()))
}

/// The details of a trade and the one future that it is in.
fn instrument(trade: &Element) -> Result<(&Element, &Element), Refused> {
    let Some(details) = trade.at(&["instrumentTradeDetails"]) else {
        let product = trade.children.iter().find(|child| child.name != "tradeHeader");
        let name = product.map_or("nothing", |product| &product.name);
        return refused(
            None,
            format!("a trade in {name}, only instrumentTradeDetails of a future can be valued"),
        );
    };
    // The first alone would be read.
    let has_several = |element: &Element, name| element.all(name).count() > 1;
    if has_several(trade, "instrumentTradeDetails")
        || has_several(details, "future")
        || has_several(details, "quantity")
    {
        return refused(
            None,
            "a trade in more than one instrument, or with several quantities".to_owned(),
        );
    }
    let Some(future) = details.at(&["future"]) else {
        return refused(
            None,
            "instrumentTradeDetails of something that is not a future".to_owned(),
        );
    };
    if details.at(&["quantity", "nominal"]).is_some() {
        return refused(
            Some("quantity"),
            "a nominal amount, it has to be a number of contracts".to_owned(),
        );
    }
    Ok((details, future))
}

/// The price of a trade, of its quotes the one that is a price.
fn price(details: &Element) -> Result<Option<&str>, Refused> {
    let quotes = || details.at(&["pricing"]).into_iter().flat_map(|pricing| pricing.all("quote"));
    let mut prices = quotes().filter(|quote| other_measure(quote).is_none());
    match (prices.next(), prices.next(), quotes().find_map(other_measure)) {
        (Some(price), None, _) => Ok(text(price, &["value"])),
        (Some(_), Some(_), _) => refused(Some("entryPrice"), "more than one price".to_owned()),
        (None, _, Some(measure)) => {
            refused(Some("entryPrice"), format!("a quote of {measure}, it has to be a price"))
        }
        (None, _, None) => Ok(None),
    }
}

/// What a quote is of, if it is of no price.
fn other_measure(quote: &Element) -> Option<&str> {
    let is_price =
        |measure: &str| measure == "MarketQuote" || measure.to_lowercase().contains("price");
    let is_other_unit = |unit: &str| ["BasisPoints", "Volatility", "Yield"].contains(&unit);
    let measure = text(quote, &["measureType"]).map(str::trim).filter(|name| !is_price(name));
    measure
        .or_else(|| text(quote, &["quoteUnits"]).map(str::trim).filter(|unit| is_other_unit(unit)))
}

fn text<'e>(element: &'e Element, path: &'e [&'e str]) -> Option<&'e str> {
    element.at(path).map(|element| element.text.as_str())
}

fn refused<T>(field: Option<&'static str>, msg: String) -> Result<T, Refused> {
    Err((field, ValueError::new("value_error", msg)))
}

fn names(future: &Element) -> impl Iterator<Item = &str> {
    future
        .all("instrumentId")
        .chain(future.all("futureContractReference"))
        .map(|name| name.text.trim())
}

fn reference<'e>(element: &'e Element, path: &'e [&'e str]) -> Option<&'e str> {
    element.at(path).and_then(|element| element.attribute("href"))
}

/// An XML Schema date may end with a time zone: `2024-12-30Z`, `2024-12-30+01:00`.
fn without_zone(date: &str) -> &str {
    let date = date.trim();
    match date.split_at_checked(10) {
        Some((day, zone)) if zone.starts_with(['Z', '+', '-']) => day,
        _ => date,
    }
}

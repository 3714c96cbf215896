//! Two schemas compared by the values that they admit.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::Value;

use crate::finding::{Direction, Effect, Finding, Verdict};
use crate::shape::{Alternative, Api, Kind, Limit, Schema, Shape, canonical};

/// Formats that say which strings are admitted; others are hints to people and generators.
const STRING_FORMATS: [&str; 15] = [
    "binary",
    "byte",
    "date",
    "date-time",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "regex",
    "time",
    "uri",
    "uri-reference",
    "url",
    "uuid",
];

/// Alternatives are tried out against each other this deep.
const TRIALS_LIMIT: usize = 1;

/// Compares schemas of one message of one operation.
pub(crate) struct Values<'a> {
    old: &'a Api,
    new: &'a Api,
    /// Components that are not the same in both documents.
    changed: &'a BTreeSet<&'a str>,
    operation: String,
    direction: Direction,
    /// Pairs of schemas that were compared already, or are being compared: recursion ends here.
    seen: HashSet<(Vec<*const Value>, Vec<*const Value>)>,
    /// How many alternatives are being tried out, one within the other.
    trials: usize,
    pub(crate) findings: Vec<Finding>,
}

impl<'a> Values<'a> {
    pub(crate) fn new(
        old: &'a Api,
        new: &'a Api,
        changed: &'a BTreeSet<&'a str>,
        operation: &str,
        direction: Direction,
    ) -> Self {
        Self {
            old,
            new,
            changed,
            operation: operation.to_owned(),
            direction,
            seen: HashSet::new(),
            trials: 0,
            findings: Vec::new(),
        }
    }

    fn say(&mut self, at: &str, rule: &'static str, effect: Effect, message: impl Into<String>) {
        let verdict = effect.verdict(self.direction);
        let code = code(rule, effect, self.direction);
        self.push(at, rule, Some(effect), verdict, code, message);
    }

    fn push(
        &mut self,
        at: &str,
        rule: &'static str,
        effect: Option<Effect>,
        verdict: Verdict,
        code: Verdict,
        message: impl Into<String>,
    ) {
        self.findings.push(Finding {
            operations: vec![self.operation.clone()],
            at: at.to_owned(),
            direction: Some(self.direction),
            rule,
            message: message.into(),
            verdict,
            code,
            effect,
        });
    }

    /// A property: what it means, and its schema.
    pub(crate) fn member(&mut self, old: &[&'a Value], new: &[&'a Value], at: &str) {
        self.meaning(old, new, at);
        self.schema(old, new, at);
    }

    /// What a value means beside its type: default, unit, allowed values, deprecation. They stand
    /// on the schema, or on the parameter or header that has it.
    pub(crate) fn meaning(&mut self, old: &[&'a Value], new: &[&'a Value], at: &str) {
        self.stated(at, "unit", (stated(self.old, old, "x-unit"), stated(self.new, new, "x-unit")));
        if self.direction == Direction::Request {
            self.stated(at, "default", (default(self.old, old), default(self.new, new)));
            // Beside open values others are admitted, so that they only help.
            self.listed(closed_list(self.old, old), closed_list(self.new, new), at);
            let before = lower_end(self.old, old);
            let after = lower_end(self.new, new);
            self.limit(at, "x-from", before, after, |old, new| new.value > old.value);
            let before = end(self.old, old, "x-to");
            let after = end(self.new, new, "x-to");
            self.limit(at, "x-to", before, after, |old, new| new.value < old.value);
        }
        if is_deprecated(self.new, new) && !is_deprecated(self.old, old) {
            self.push(
                at,
                "deprecated",
                None,
                Verdict::Compatible,
                Verdict::Compatible,
                "is deprecated",
            );
        }
    }

    /// Something that gives the same value another meaning.
    fn stated(&mut self, at: &str, rule: &'static str, sides: (Option<&Value>, Option<&Value>)) {
        let message = match sides {
            (Some(old), Some(new)) if canonical(old) != canonical(new) => {
                format!("{rule} {old} became {new}")
            }
            (Some(old), None) => format!("{rule} {old} is no longer stated"),
            (None, Some(new)) => {
                // What was left open is settled.
                let message = format!("{rule} {new} is stated");
                return self.push(
                    at,
                    rule,
                    None,
                    Verdict::Compatible,
                    Verdict::Compatible,
                    message,
                );
            }
            _ => return,
        };
        self.say(at, rule, Effect::Changed, message);
    }

    /// Allowed values of what is no enumeration in the schema.
    fn listed(&mut self, old: Option<&Value>, new: Option<&Value>, at: &str) {
        match (old.map(texts), new.map(texts)) {
            (None, Some(new)) => {
                self.say(at, "x-values", Effect::Narrower, format!("admits only {}", joined(&new)));
            }
            (Some(_), None) => {
                self.say(at, "x-values", Effect::Wider, "its values are no longer listed")
            }
            (Some(old), Some(new)) => {
                for (values, effect, words) in [
                    (&old - &new, Effect::Narrower, "no longer admits"),
                    (&new - &old, Effect::Wider, "admits"),
                ] {
                    if !values.is_empty() {
                        self.say(at, "x-values", effect, format!("{words} {}", joined(&values)));
                    }
                }
            }
            (None, None) => {}
        }
    }

    pub(crate) fn schema(&mut self, old: &[&'a Value], new: &[&'a Value], at: &str) {
        // Most of two versions is the same, and a record comes back from many operations.
        if old == new && !old.iter().any(|written| refers_to(written, self.changed)) {
            return;
        }
        // Pairs of pairs of alternatives would be too many; the outer ones tell which belong
        // together.
        if self.trials > TRIALS_LIMIT || !self.seen.insert((key(self.old, old), key(self.new, new)))
        {
            return;
        }
        let names = (name(old), name(new));
        let at = names.0.unwrap_or(at);
        if names.0 != names.1 {
            let [before, after] = [names.0, names.1].map(|name| name.unwrap_or("an inline schema"));
            let message = format!("{before} became {after}");
            self.push(at, "schema-name", None, Verdict::Cosmetic, Verdict::Breaking, message);
        }
        self.wording(old, new, at);
        let mut before = self.old.shape(old);
        let mut after = self.new.shape(new);
        match (Tags::of(self.old, old), Tags::of(self.new, new)) {
            (None, None) => {}
            (tags, others) => {
                self.tags(tags, others, at);
                // They distinguish what the schemas alone may not.
                (before.is_exclusive, after.is_exclusive) = (false, false);
            }
        }
        self.shapes(&before, &after, at);
    }

    fn wording(&mut self, old: &[&'a Value], new: &[&'a Value], at: &str) {
        if words(self.old, old) != words(self.new, new) {
            self.push(
                at,
                "wording",
                None,
                Verdict::Cosmetic,
                Verdict::Cosmetic,
                "texts, examples or extensions differ",
            );
        }
    }

    /// The property that distinguishes alternatives, and its values.
    fn tags(&mut self, before: Option<Tags<'a>>, after: Option<Tags<'a>>, at: &str) {
        let message =
            if before.is_some() { "no longer has a discriminator" } else { "has a discriminator" };
        let (Some(before), Some(after)) = (before, after) else {
            // It says where to look, not what is admitted.
            self.push(at, "discriminator", None, Verdict::Cosmetic, Verdict::Breaking, message);
            return;
        };
        if before.property != after.property {
            let message =
                format!("is distinguished by {} instead of {}", after.property, before.property);
            self.say(at, "discriminator", Effect::Changed, message);
        }
        for (values, effect, words) in [
            (before.unknown_to(&after), Effect::Narrower, "may no longer be"),
            (after.unknown_to(&before), Effect::Wider, "may be"),
        ] {
            if !values.is_empty() {
                let message = format!("{} {words} {}", before.property, values.join(", "));
                self.say(at, "discriminator", effect, message);
            }
        }
        for (value, target) in &before.targets {
            // A component may go by another name; that of another alternative is another meaning.
            if let Some(other) = after.targets.get(value)
                && other != target
                && after.targets.values().any(|known| known == target)
            {
                self.say(
                    at,
                    "discriminator",
                    Effect::Changed,
                    format!("{value} means {other} instead of {target}"),
                );
            }
        }
    }

    fn shapes(&mut self, old: &Shape<'a>, new: &Shape<'a>, at: &str) {
        let before: BTreeSet<Kind> = old.alternatives.iter().map(|a| a.kind).collect();
        let after: BTreeSet<Kind> = new.alternatives.iter().map(|a| a.kind).collect();
        let effect = match (before.is_subset(&after), after.is_subset(&before)) {
            (true, true) => None,
            (true, false) => Some(Effect::Wider),
            (false, true) => Some(Effect::Narrower),
            (false, false) => Some(Effect::Changed),
        };
        if let Some(effect) = effect {
            self.say(
                at,
                "type",
                effect,
                format!("{} became {}", old.type_names(), new.type_names()),
            );
        }
        // Of what was or is anything the types say all.
        if effect.is_some() && old.is_anything() != new.is_anything() {
            return;
        }
        if old.null != new.null {
            let (effect, message) = if new.null {
                (Effect::Wider, "may be null")
            } else {
                (Effect::Narrower, "may no longer be null")
            };
            self.say(at, "null", effect, message);
        }
        let is_union = old.alternatives.len() > 1;
        for kind in before.intersection(&after) {
            let old: Vec<Alternative<'a>> = old.of(*kind).cloned().collect();
            let new: Vec<Alternative<'a>> = new.of(*kind).cloned().collect();
            match (old.as_slice(), new.as_slice()) {
                // In a union each has the name of its own.
                ([old], [new]) => {
                    self.alternative(old, new, old.name.filter(|_| is_union).unwrap_or(at))
                }
                _ => self.alternatives(&old, &new, at),
            }
        }
        // Which of two alternatives is meant is no matter where one of them is gone.
        let is_shorter = new.alternatives.len() < old.alternatives.len();
        if old.is_exclusive != new.is_exclusive && !is_shorter {
            let (effect, message) = if new.is_exclusive {
                (Effect::Narrower, "what matches two alternatives is no longer admitted")
            } else {
                (Effect::Wider, "what matches two alternatives is now admitted")
            };
            self.say(at, "alternatives", effect, message);
        }
    }

    /// Several alternatives of one type: those of one name and those that are alike are compared,
    /// the rest came or went.
    fn alternatives(&mut self, old: &[Alternative<'a>], new: &[Alternative<'a>], at: &str) {
        let mut gone: Vec<usize> = (0..old.len()).collect();
        let mut fresh: Vec<usize> = (0..new.len()).collect();
        for before in old {
            if let (Some(i), Some(j)) = (only_named(old, before.name), only_named(new, before.name))
            {
                gone.retain(|other| *other != i);
                fresh.retain(|other| *other != j);
                self.alternative(before, &new[j], before.name.unwrap_or(at));
            }
        }
        let mut pairs: Vec<(usize, usize, Vec<Finding>)> = Vec::new();
        for (i, before) in old.iter().enumerate() {
            for (j, after) in
                new.iter().enumerate().filter(|(j, _)| gone.contains(&i) || fresh.contains(j))
            {
                pairs.push((i, j, self.trial(before, after, at)));
            }
        }
        // An alternative that another one on the other side includes is neither lost nor new.
        let mut lost = gone.clone();
        let mut added = fresh.clone();
        for (i, j, findings) in &pairs {
            if !has_effect(findings, &[Effect::Narrower, Effect::Changed]) {
                lost.retain(|other| other != i);
            }
            if !has_effect(findings, &[Effect::Wider, Effect::Changed]) {
                added.retain(|other| other != j);
            }
        }
        pairs.retain(|(i, j, _)| gone.contains(i) && fresh.contains(j));
        pairs.sort_by_key(|(_, _, findings)| substance(findings));
        for (i, j, findings) in pairs {
            let is_alike = old[i].kind != Kind::Object || shares_properties(&old[i], &new[j]);
            let is_open = substance(&findings) == 0 || lost.contains(&i) || added.contains(&j);
            if is_alike && is_open && gone.contains(&i) && fresh.contains(&j) {
                for rest in [&mut gone, &mut lost] {
                    rest.retain(|other| *other != i);
                }
                for rest in [&mut fresh, &mut added] {
                    rest.retain(|other| *other != j);
                }
                // Once more, and as deep as it goes.
                self.alternative(&old[i], &new[j], old[i].name.unwrap_or(at));
            }
        }
        for i in lost {
            let name = old[i].name.unwrap_or(old[i].type_name());
            self.say(at, "alternatives", Effect::Narrower, format!("may no longer be {name}"));
        }
        for j in added {
            let name = new[j].name.unwrap_or(new[j].type_name());
            self.say(at, "alternatives", Effect::Wider, format!("may be {name}"));
        }
    }

    fn trial(&self, old: &Alternative<'a>, new: &Alternative<'a>, at: &str) -> Vec<Finding> {
        let mut trial = Self {
            seen: self.seen.clone(),
            trials: self.trials + 1,
            ..Self::new(self.old, self.new, self.changed, &self.operation, self.direction)
        };
        trial.alternative(old, new, old.name.unwrap_or(at));
        trial.findings
    }

    fn alternative(&mut self, old: &Alternative<'a>, new: &Alternative<'a>, at: &str) {
        if old.whole != new.whole {
            let effect = if new.whole { Effect::Narrower } else { Effect::Wider };
            self.say(
                at,
                "integer",
                effect,
                format!("{} became {}", old.type_name(), new.type_name()),
            );
        }
        let keys: BTreeSet<&str> = old.opaque.keys().chain(new.opaque.keys()).copied().collect();
        for key in keys {
            let effect = match (old.opaque.get(key), new.opaque.get(key)) {
                (None, _) => Effect::Narrower,
                (_, None) => Effect::Wider,
                (old, new) if old == new => continue,
                (Some(old), Some(new)) if key == "multipleOf" => multiples(old, new),
                _ => Effect::Changed,
            };
            self.say(at, "keyword", effect, format!("`{key}` differs"));
        }
        if old.values.is_some() || new.values.is_some() {
            // Values that are listed say more than bounds.
            return self.enumeration(old, new, at);
        }
        self.limit(at, "minimum", old.lower, new.lower, |old, new| new.value > old.value);
        self.limit(at, "maximum", old.upper, new.upper, |old, new| new.value < old.value);
        let (least, most, unit) = match old.kind {
            Kind::Array => ("minItems", "maxItems", "items"),
            Kind::Object => ("minProperties", "maxProperties", "properties"),
            _ => ("minLength", "maxLength", "characters"),
        };
        if old.least != new.least {
            let effect = if new.least > old.least { Effect::Narrower } else { Effect::Wider };
            self.say(
                at,
                least,
                effect,
                format!("at least {} {unit} became {}", old.least, new.least),
            );
        }
        if old.most != new.most {
            let effect = if new.most.unwrap_or(u64::MAX) < old.most.unwrap_or(u64::MAX) {
                Effect::Narrower
            } else {
                Effect::Wider
            };
            let [before, after] = [old.most, new.most].map(or_any_number);
            self.say(at, most, effect, format!("at most {before} {unit} became {after}"));
        }
        if old.unique != new.unique {
            let effect = if new.unique { Effect::Narrower } else { Effect::Wider };
            let message = if new.unique { "items must differ" } else { "items may repeat" };
            self.say(at, "uniqueItems", effect, message);
        }
        let effect =
            match (old.patterns.is_subset(&new.patterns), new.patterns.is_subset(&old.patterns)) {
                (true, true) => None,
                (true, false) => Some(Effect::Narrower),
                (false, true) => Some(Effect::Wider),
                (false, false) => Some(Effect::Changed),
            };
        if let Some(effect) = effect {
            let message = format!("pattern {} became {}", patterns(old), patterns(new));
            self.say(at, "pattern", effect, message);
        }
        self.format(old, new, at);
        if old.kind == Kind::Array {
            self.member(&old.items, &new.items, &format!("{at}[]"));
        }
        if old.kind == Kind::Object {
            self.object(old, new, at);
        }
    }

    fn enumeration(&mut self, old: &Alternative<'a>, new: &Alternative<'a>, at: &str) {
        let before = (self.old, old);
        let after = (self.new, new);
        let lost = listed_only(before, after);
        let added = listed_only(after, before);
        if let (Some(values), None) = (&new.values, &old.values) {
            self.say(at, "enum", Effect::Narrower, format!("admits only {}", joined(values)));
        } else if !lost.is_empty() {
            let message = format!("no longer admits {}", joined(&lost));
            self.say(at, "enum", Effect::Narrower, message);
        }
        if old.values.is_some() && new.values.is_none() {
            self.say(
                at,
                "enum",
                Effect::Wider,
                format!("admits other values of type {}", new.type_name()),
            );
        } else if !added.is_empty() {
            let message = format!("admits {}", joined(&added));
            self.say(at, "enum", Effect::Wider, message);
        }
    }

    fn limit(
        &mut self,
        at: &str,
        rule: &'static str,
        old: Option<Limit>,
        new: Option<Limit>,
        narrows: fn(&Limit, &Limit) -> bool,
    ) {
        let effect = match (&old, &new) {
            (Some(a), Some(b)) if a == b => return,
            (None, None) => return,
            (None, Some(_)) => Effect::Narrower,
            (Some(_), None) => Effect::Wider,
            (Some(a), Some(b)) if a.value == b.value => {
                if b.exclusive {
                    Effect::Narrower
                } else {
                    Effect::Wider
                }
            }
            (Some(a), Some(b)) if narrows(a, b) => Effect::Narrower,
            _ => Effect::Wider,
        };
        let [before, after] = [old, new].map(or_none);
        self.say(at, rule, effect, format!("{rule} {before} became {after}"));
    }

    fn format(&mut self, old: &Alternative<'a>, new: &Alternative<'a>, at: &str) {
        if old.format == new.format {
            return;
        }
        let message = format!(
            "format {} became {}",
            old.format.unwrap_or("none"),
            new.format.unwrap_or("none")
        );
        match (has_known_format(old), has_known_format(new)) {
            // The width of a number is the generated code's matter.
            (false, false) => {
                self.push(at, "format", None, Verdict::Cosmetic, Verdict::Breaking, message)
            }
            (false, true) => self.say(at, "format", Effect::Narrower, message),
            (true, false) => self.say(at, "format", Effect::Wider, message),
            (true, true) => self.say(at, "format", Effect::Changed, message),
        }
    }

    fn object(&mut self, old: &Alternative<'a>, new: &Alternative<'a>, at: &str) {
        let names: BTreeSet<&str> = [old, new]
            .into_iter()
            .flat_map(|a| a.properties.keys().chain(&a.required))
            .copied()
            .collect();
        for property in names {
            let at = format!("{at}.{property}");
            let before = travelling(self.old, old, property, self.direction);
            let after = travelling(self.new, new, property, self.direction);
            let was_required = old.required.contains(property);
            let is_required = new.required.contains(property);
            match (before, after) {
                (Some(before), Some(after)) => {
                    if was_required != is_required {
                        let (effect, message) = if is_required {
                            (Effect::Narrower, "is now required")
                        } else {
                            (Effect::Wider, "is no longer required")
                        };
                        self.say(&at, "required", effect, message);
                    }
                    self.member(&before, &after, &at);
                }
                // What was asked for by it no longer happens; what was read from it is not there.
                (Some(_), None) => self.say(&at, "property-removed", Effect::Changed, "is gone"),
                (None, Some(_)) => {
                    let effect = match self.direction {
                        Direction::Request if is_required => Effect::Narrower,
                        Direction::Request => Effect::Wider,
                        // Clients ignore what they do not know.
                        Direction::Response => Effect::Narrower,
                    };
                    let message = if is_required { "is new and required" } else { "is new" };
                    self.say(&at, "property-added", effect, message);
                }
                (None, None) => {}
            }
        }
        self.others(old, new, at);
    }

    /// Properties that the schema does not name.
    fn others(&mut self, old: &Alternative<'a>, new: &Alternative<'a>, at: &str) {
        match (admits_nothing(self.old, &old.others), admits_nothing(self.new, &new.others)) {
            (true, true) => {}
            (false, false) => self.schema(&old.others, &new.others, &format!("{at}.*")),
            (false, true) => {
                self.say(
                    at,
                    "additionalProperties",
                    Effect::Narrower,
                    "no longer admits other properties",
                );
            }
            (true, false) => {
                self.say(at, "additionalProperties", Effect::Wider, "admits other properties")
            }
        }
    }
}

/// Components that are not written the same in both documents, or that lead to one that is not.
pub(crate) fn changed<'a>(old: &'a Api, new: &'a Api) -> BTreeSet<&'a str> {
    // The versions of OpenAPI read the same words differently.
    let is_read_alike = old.reads_siblings() == new.reads_siblings();
    let others = &new.value["components"]["schemas"];
    let mut changed: BTreeSet<&str> = schemas(old)
        .filter(|(name, value)| !is_read_alike || others.get(name) != Some(value))
        .map(|(name, _)| name.as_str())
        .collect();
    loop {
        let more: Vec<&str> = schemas(old)
            .map(|(name, value)| (name.as_str(), value))
            .filter(|(name, value)| !changed.contains(name) && refers_to(value, &changed))
            .map(|(name, _)| name)
            .collect();
        if more.is_empty() {
            return changed;
        }
        changed.extend(more);
    }
}

fn schemas(api: &Api) -> impl Iterator<Item = (&String, &Value)> {
    api.value["components"]["schemas"].as_object().into_iter().flatten()
}

/// Whether a schema refers to one of the components, or to what is none.
fn refers_to(value: &Value, components: &BTreeSet<&str>) -> bool {
    match value {
        Value::Object(map) => map.iter().any(|(key, value)| match (key.as_str(), value) {
            ("$ref", Value::String(reference)) => reference
                .strip_prefix("#/components/schemas/")
                .is_none_or(|name| components.contains(name)),
            _ => refers_to(value, components),
        }),
        Value::Array(items) => items.iter().any(|value| refers_to(value, components)),
        _ => false,
    }
}

/// What another step does: every multiple of 4 is one of 2.
fn multiples(old: &str, new: &str) -> Effect {
    let (Ok(old), Ok(new)) = (old.parse::<f64>(), new.parse::<f64>()) else {
        return Effect::Changed;
    };
    match ((new / old).fract() == 0.0, (old / new).fract() == 0.0) {
        (true, _) => Effect::Narrower,
        (_, true) => Effect::Wider,
        _ => Effect::Changed,
    }
}

/// A discriminator: the values of its property, and the component that each means.
struct Tags<'a> {
    property: &'a str,
    targets: BTreeMap<&'a str, &'a str>,
}

impl<'a> Tags<'a> {
    /// The values that others do not have.
    fn unknown_to(&self, others: &Self) -> Vec<&'a str> {
        self.targets.keys().filter(|value| !others.targets.contains_key(*value)).copied().collect()
    }

    fn of(api: &'a Api, schema: &[&'a Value]) -> Option<Self> {
        let discriminator = api.keyword(schema, "discriminator")?;
        let last = |reference: &'a Value| reference.as_str()?.rsplit('/').next();
        let stated = discriminator["mapping"].as_object().into_iter().flatten();
        let mut targets: BTreeMap<_, _> =
            stated.filter_map(|(value, target)| Some((value.as_str(), last(target)?))).collect();
        // Without a value of its own a component's name is its value.
        let parts = ["oneOf", "anyOf"]
            .into_iter()
            .filter_map(|key| api.keyword(schema, key)?.as_array())
            .flatten();
        for name in parts.filter_map(|part| last(&part["$ref"])) {
            if !targets.values().any(|known| *known == name) {
                targets.insert(name, name);
            }
        }
        Some(Self { property: discriminator["propertyName"].as_str().unwrap_or_default(), targets })
    }
}

/// Whether a value of an enumeration is within the bounds beside it.
fn admits<'a>(api: &'a Api, schema: &Alternative<'a>, value: &str) -> bool {
    let value: Value = serde_json::from_str(value).expect("a canonical value is JSON");
    crate::admit::is_admitted(api, schema, &value)
}

/// What a change means to code that uses a client generated anew.
fn code(rule: &str, effect: Effect, direction: Direction) -> Verdict {
    let is_breaking = match rule {
        "type"
        | "integer"
        | "format"
        | "property-removed"
        | "required"
        | "alternatives"
        | "additionalProperties"
        | "discriminator" => true,
        // Every generator makes what may be left out of a request an option already.
        "null" => direction == Direction::Response,
        "enum" => direction == Direction::Response || effect != Effect::Wider,
        "property-added" => direction == Direction::Request && effect == Effect::Narrower,
        _ => false,
    };
    if is_breaking { Verdict::Breaking } else { Verdict::Compatible }
}

/// The component that a schema is a reference to.
fn name<'a>(schema: &[&'a Value]) -> Option<&'a str> {
    let [one] = schema else { return None };
    let mut reference = one.get("$ref");
    // A wrapper of one is no schema of its own; nor is a null beside a reference.
    for key in ["allOf", "anyOf", "oneOf"] {
        let parts = one.get(key).and_then(Value::as_array).into_iter().flatten();
        let mut references = parts.filter_map(|part| part.get("$ref"));
        if let (Some(only), None) = (references.next(), references.next()) {
            reference = Some(only);
        }
    }
    reference?.as_str()?.rsplit('/').next()
}

/// The `x-` keys of a schema as written.
fn extensions(schema: &[&Value]) -> Vec<Value> {
    let maps = schema.iter().filter_map(|written| written.as_object()).flatten();
    let mut pairs: Vec<(&String, Value)> = maps
        .filter(|(key, _)| key.starts_with("x-"))
        .map(|(key, value)| (key, canonical(value)))
        .collect();
    pairs.sort_by_key(|(key, _)| *key);
    pairs
        .into_iter()
        .map(|(key, value)| Value::Array(vec![Value::from(key.as_str()), value]))
        .collect()
}

/// A property of an object as it travels in a direction: requests hold nothing that is read only,
/// responses nothing that is write only.
fn travelling<'a>(
    api: &'a Api,
    object: &Alternative<'a>,
    property: &str,
    direction: Direction,
) -> Option<Schema<'a>> {
    let hidden = match direction {
        Direction::Request => "readOnly",
        Direction::Response => "writeOnly",
    };
    let schema = match object.properties.get(property) {
        Some(schema) => schema.clone(),
        None if object.required.contains(property) => Vec::new(),
        None => return None,
    };
    let is_hidden = api.keyword(&schema, hidden).is_some_and(|value| *value == Value::Bool(true));
    (!is_hidden).then_some(schema)
}

fn shares_properties(a: &Alternative<'_>, b: &Alternative<'_>) -> bool {
    let shared = a.properties.keys().filter(|name| b.properties.contains_key(*name)).count();
    2 * shared >= a.properties.len().max(b.properties.len())
}

/// What is stated under a key of a schema; null states nothing.
fn stated<'a>(api: &'a Api, schema: &[&'a Value], key: &str) -> Option<&'a Value> {
    api.keyword(schema, key).filter(|value| !value.is_null())
}

fn default<'a>(api: &'a Api, schema: &[&'a Value]) -> Option<&'a Value> {
    stated(api, schema, "default").or_else(|| stated(api, schema, "x-default"))
}

/// The values that are allowed, where no others are.
fn closed_list<'a>(api: &'a Api, schema: &[&'a Value]) -> Option<&'a Value> {
    stated(api, schema, "x-values").filter(|_| stated(api, schema, "x-open") != Some(&true.into()))
}

fn end(api: &Api, schema: &[&Value], key: &str) -> Option<Limit> {
    let value = stated(api, schema, key)?.as_f64()?;
    Some(Limit { value, exclusive: key == "x-above" })
}

fn lower_end(api: &Api, schema: &[&Value]) -> Option<Limit> {
    end(api, schema, "x-above").or_else(|| end(api, schema, "x-from"))
}

fn is_deprecated(api: &Api, schema: &[&Value]) -> bool {
    stated(api, schema, "deprecated") == Some(&true.into())
}

/// The items of a list as JSON.
fn texts(list: &Value) -> BTreeSet<String> {
    list.as_array().into_iter().flatten().map(ToString::to_string).collect()
}

fn joined(texts: &BTreeSet<String>) -> String {
    texts.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// What identifies a schema. The target stands for its references, or a circle would be walked once
/// per reference to it.
fn key(api: &Api, schema: &[&Value]) -> Vec<*const Value> {
    match schema {
        [one] if one.as_object().is_some_and(|map| map.len() == 1) => {
            vec![std::ptr::from_ref(api.follow(one))]
        }
        _ => schema.iter().map(|written| std::ptr::from_ref(*written)).collect(),
    }
}

/// The place of the only alternative of this name, if there is a name.
fn only_named(all: &[Alternative<'_>], name: Option<&str>) -> Option<usize> {
    let mut named = all.iter().enumerate().filter(|(_, a)| a.name.is_some() && a.name == name);
    named.next().filter(|_| named.next().is_none()).map(|(index, _)| index)
}

fn has_effect(findings: &[Finding], effects: &[Effect]) -> bool {
    findings.iter().filter_map(|finding| finding.effect).any(|effect| effects.contains(&effect))
}

/// How many findings change what is admitted.
fn substance(findings: &[Finding]) -> usize {
    findings.iter().filter(|finding| finding.effect.is_some()).count()
}

fn or_any_number(most: Option<u64>) -> String {
    most.map_or_else(|| "any number".to_owned(), |most| most.to_string())
}

fn patterns(of: &Alternative<'_>) -> String {
    let patterns: Vec<&str> = of.patterns.iter().copied().collect();
    if patterns.is_empty() { "none".to_owned() } else { patterns.join(" and ") }
}

/// Texts, examples and extensions of a schema.
fn words(api: &Api, schema: &[&Value]) -> Vec<Option<Value>> {
    let mut words: Vec<Option<Value>> = ["title", "description", "externalDocs"]
        .into_iter()
        .map(|key| api.keyword(schema, key).map(canonical))
        .collect();
    // OpenAPI 3.1 has a list where 3.0 has one.
    let example = api.keyword(schema, "example").map(|one| Value::Array(vec![canonical(one)]));
    words.push(example.or_else(|| api.keyword(schema, "examples").map(canonical)));
    words.extend(extensions(schema).into_iter().map(Some));
    words
}

/// Whether a string has a format that restricts it.
fn has_known_format(of: &Alternative<'_>) -> bool {
    of.kind == Kind::String && of.format.is_some_and(|format| STRING_FORMATS.contains(&format))
}

fn admits_nothing(api: &Api, schema: &[&Value]) -> bool {
    let shape = api.shape(schema);
    shape.alternatives.is_empty() && !shape.null
}

fn or_none(limit: Option<Limit>) -> String {
    limit.map_or_else(|| "none".to_owned(), |limit| limit.to_string())
}

/// Values of an enumeration that it admits, and the other schema does not.
fn listed_only<'a>(
    (api, schema): (&'a Api, &Alternative<'a>),
    (other_api, other): (&'a Api, &Alternative<'a>),
) -> BTreeSet<String> {
    let values = schema.values.iter().flatten().filter(|value| admits(api, schema, value));
    values.filter(|value| !admits(other_api, other, value)).cloned().collect()
}

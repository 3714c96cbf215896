//! The public surface of the Rust that is generated of a document.
//!
//! The code is that of `molbox-codegen`: progenitor's, with types for bounded numbers and setters
//! that take any value of a field. Nothing is reported of Rust but what is in it.

use std::any::Any;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use molbox_codegen::{Document, Part, Scope};
use quote::{ToTokens, quote};
use serde_json::Value;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Expr, Fields, FnArg, ImplItem, ImplItemFn, Item, ItemImpl, ItemMacro, Signature, Type,
    Visibility,
};

/// What users of the generated code can name, by path.
#[derive(Debug, Default)]
pub(crate) struct Surface {
    pub(crate) items: BTreeMap<String, Entry>,
    /// Types that come back from a call, by path.
    answered: BTreeSet<String>,
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) kind: Kind,
    /// Its type or signature; what is compared.
    pub(crate) text: String,
    /// The type that it belongs to.
    pub(crate) owner: Option<String>,
    /// A setter without which nothing can be sent.
    pub(crate) is_required: bool,
    /// Words in its type; those that are types of the module lead on.
    idents: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Type,
    Field,
    Variant,
    Method,
    Trait,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Type => "type",
            Self::Field => "field",
            Self::Variant => "variant",
            Self::Method => "method",
            Self::Trait => "implementation",
        }
    }
}

impl Surface {
    pub(crate) fn of(document: &Value) -> Result<Self, String> {
        let version = document["openapi"].as_str().unwrap_or_default();
        if !version.starts_with("3.0") {
            return Err(format!("progenitor reads OpenAPI 3.0, not {version}"));
        }
        let document = Document { value: document.clone() };
        let mut surface = Self::default();
        for part in Part::ALL {
            // A document for one base address has no second module.
            if !document.operations().any(|operation| operation.part == part) {
                continue;
            }
            let file = generated(&document, part)?;
            let mut module = Module {
                items: BTreeMap::new(),
                answers: BTreeSet::new(),
                required: BTreeSet::new(),
            };
            module.items(&file.items, &mut vec![part.module().to_owned()]);
            module.finish(part.module(), &mut surface);
        }
        Ok(surface)
    }

    /// Whether a path is that of a type of which values come back.
    pub(crate) fn is_answered(&self, path: &str) -> bool {
        self.answered.contains(path)
    }
}

thread_local! {
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// The generated code. progenitor and typify panic on much that they do not know.
fn generated(document: &Document, part: Part) -> Result<syn::File, String> {
    static HOOK: Once = Once::new();
    // The panic is the reason that we give; it need not stand on the terminal as well. Other
    // threads panic as loud as before.
    HOOK.call_once(|| {
        let loud = take_hook();
        set_hook(Box::new(move |info| {
            if !IS_QUIET.get() {
                loud(info);
            }
        }));
    });
    IS_QUIET.set(true);
    let result = catch_unwind(AssertUnwindSafe(|| document.syntax(part, Scope::Client)));
    IS_QUIET.set(false);
    match result {
        Ok(result) => result.map_err(|problem| problem.to_string()),
        Err(panic) => Err(format!("the generator panics: {}", words(&*panic))),
    }
}

fn words(panic: &dyn Any) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text =
        text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message");
    // Dumps of whole schemas follow.
    let line: String = text.lines().next().unwrap_or_default().chars().take(200).collect();
    line
}

/// One generated module while it is read.
struct Module {
    items: BTreeMap<String, Entry>,
    /// Words in the types that calls return.
    answers: BTreeSet<String>,
    /// Fields of builders that begin as an error: builder and field.
    required: BTreeSet<(String, String)>,
}

impl Module {
    fn items(&mut self, items: &[Item], at: &mut Vec<String>) {
        for item in items {
            match item {
                Item::Mod(module) if is_public(&module.vis) => {
                    at.push(module.ident.to_string());
                    self.items(module.content.as_ref().map_or(&[], |(_, items)| items), at);
                    at.pop();
                }
                Item::Struct(item) if is_public(&item.vis) => {
                    let path = self.define(at, &item.ident.to_string(), "struct", &item.attrs);
                    self.fields(&item.fields, &path);
                }
                Item::Enum(item) if is_public(&item.vis) => {
                    let path = self.define(at, &item.ident.to_string(), "enum", &item.attrs);
                    for variant in &item.variants {
                        let key = format!("{path}::{}", variant.ident);
                        self.put(key, Kind::Variant, &variant.fields, Some(&path));
                    }
                }
                Item::Type(item) if is_public(&item.vis) => {
                    let path = format!("{}::{}", at.join("::"), item.ident);
                    self.put(path, Kind::Type, &item.ty, None);
                }
                Item::Fn(item) if is_public(&item.vis) => {
                    let path = format!("{}::{}", at.join("::"), item.sig.ident);
                    self.items.insert(path, signature(&item.sig, None));
                }
                Item::Impl(item) => self.implementation(item, at),
                Item::Macro(item) => self.conversions(item, at),
                _ => {}
            }
        }
    }

    fn define(
        &mut self,
        at: &[String],
        name: &str,
        keyword: &str,
        attributes: &[syn::Attribute],
    ) -> String {
        let path = format!("{}::{name}", at.join("::"));
        self.put(path.clone(), Kind::Type, &quote::format_ident!("{keyword}"), None);
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("derive")) {
            // A list of paths is what a derive holds.
            let _ = attribute.parse_nested_meta(|meta| {
                let name = meta.path.segments.last().map(|segment| segment.ident.to_string());
                self.implemented(&name.unwrap_or_default(), &path);
                Ok(())
            });
        }
        path
    }

    fn fields(&mut self, fields: &Fields, owner: &str) {
        for (index, field) in fields.iter().enumerate().filter(|(_, field)| is_public(&field.vis)) {
            let name = field.ident.as_ref().map_or_else(|| index.to_string(), ToString::to_string);
            self.put(format!("{owner}.{name}"), Kind::Field, &field.ty, Some(owner));
        }
    }

    fn implementation(&mut self, item: &ItemImpl, at: &[String]) {
        let Type::Path(path) = &*item.self_ty else { return };
        let names: Vec<String> =
            path.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        // In `builder`, `super::X` is the type that is built.
        let (own, at) = match names.as_slice() {
            [up, rest @ ..] if up == "super" => (rest.join("::"), &at[..at.len() - 1]),
            all => (all.join("::"), at),
        };
        let owner = format!("{}::{own}", at.join("::"));
        if let Some((path, _)) = &item.trait_ {
            self.implemented(&text(path), &owner);
        }
        for method in item
            .items
            .iter()
            .filter_map(|item| if let ImplItem::Fn(method) = item { Some(method) } else { None })
        {
            if ["new", "default"].contains(&method.sig.ident.to_string().as_str()) {
                self.beginnings(method, &owner);
            }
            if item.trait_.is_none() && is_public(&method.vis) {
                let entry = signature(&method.sig, Some(&owner));
                if ["send", "stream"].contains(&method.sig.ident.to_string().as_str()) {
                    self.answers.extend(idents(&method.sig.output));
                }
                self.items.insert(format!("{owner}::{}()", method.sig.ident), entry);
            }
        }
    }

    /// The fields that a builder begins with as an error, since only the caller knows them.
    fn beginnings(&mut self, method: &ImplItemFn, owner: &str) {
        struct Find<'a>(&'a mut BTreeSet<(String, String)>, &'a str);
        impl VisitMut for Find<'_> {
            fn visit_field_value_mut(&mut self, field: &mut syn::FieldValue) {
                let is_error = matches!(&field.expr, Expr::Call(call) if text(&call.func) == "Err");
                if let (true, syn::Member::Named(name)) = (is_error, &field.member) {
                    self.0.insert((self.1.to_owned(), name.to_string()));
                }
                visit_mut::visit_field_value_mut(self, field);
            }
        }
        // The visitor that changes nothing is a feature of syn that the code generator has no use
        // for: with it, and with the generator in build scripts, everything from syn on is built
        // twice.
        Find(&mut self.required, owner).visit_block_mut(&mut method.block.clone());
    }

    /// `built!` and `parsed!` implement conversions for the types that they name.
    fn conversions(&mut self, item: &ItemMacro, at: &[String]) {
        let name = item
            .mac
            .path
            .segments
            .last()
            .map(|segment| segment.ident.to_string())
            .unwrap_or_default();
        for word in
            item.mac.tokens.to_string().split(',').map(str::trim).filter(|word| !word.is_empty())
        {
            self.implemented(&format!("Field ({name})"), &format!("{}::{word}", at.join("::")));
        }
    }

    fn implemented(&mut self, name: &str, owner: &str) {
        let entry = Entry {
            kind: Kind::Trait,
            text: String::new(),
            owner: Some(owner.to_owned()),
            is_required: false,
            idents: BTreeSet::new(),
        };
        self.items.insert(format!("{owner}: {name}"), entry);
    }

    fn put(&mut self, path: String, kind: Kind, tokens: &dyn ToTokens, owner: Option<&str>) {
        let text = text(tokens);
        let idents = idents(tokens);
        self.items.insert(
            path,
            Entry { kind, text, owner: owner.map(str::to_owned), is_required: false, idents },
        );
    }

    /// Settles what only the whole module knows.
    fn finish(mut self, module: &str, surface: &mut Surface) {
        for (builder, field) in &self.required {
            if let Some(setter) = self.items.get_mut(&format!("{builder}::{field}()")) {
                setter.is_required = true;
            }
        }
        // Of private types nothing can be named.
        let types: BTreeSet<String> = self
            .items
            .iter()
            .filter(|(_, e)| e.kind == Kind::Type)
            .map(|(path, _)| path.clone())
            .collect();
        self.items
            .retain(|_, entry| entry.owner.as_ref().is_none_or(|owner| types.contains(owner)));
        let mut open: Vec<String> = self.answers.into_iter().collect();
        while let Some(name) = open.pop() {
            let path = format!("{module}::types::{name}");
            if types.contains(&path) && surface.answered.insert(path.clone()) {
                let parts = self
                    .items
                    .iter()
                    .filter(|(key, entry)| **key == path || entry.owner.as_ref() == Some(&path));
                let parts = parts.filter(|(_, entry)| entry.kind != Kind::Method);
                open.extend(parts.flat_map(|(_, entry)| entry.idents.iter().cloned()));
            }
        }
        surface.items.append(&mut self.items);
    }
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// A signature without the names of its arguments.
fn signature(signature: &Signature, owner: Option<&str>) -> Entry {
    let inputs = signature.inputs.iter().map(|input| match input {
        // Whether the method changes what it was given is its own matter.
        FnArg::Receiver(receiver) => text(receiver).trim_start_matches("mut ").to_owned(),
        FnArg::Typed(argument) => text(&argument.ty),
    });
    let inputs: Vec<String> = inputs.collect();
    let generics = &signature.generics;
    let bounds = &generics.where_clause;
    let output = &signature.output;
    let asyncness = if signature.asyncness.is_some() { "async " } else { "" };
    let shown = format!(
        "{asyncness}fn{}({}) {} {}",
        text(generics),
        inputs.join(", "),
        text(output),
        text(bounds)
    );
    Entry {
        kind: Kind::Method,
        text: shown.trim().to_owned(),
        owner: owner.map(str::to_owned),
        is_required: false,
        idents: BTreeSet::new(),
    }
}

/// Tokens as people write them, with the standard library's types by their last names.
fn text(tokens: &(impl ToTokens + ?Sized)) -> String {
    let mut text = quote!(#tokens).to_string();
    for (from, to) in [
        (" :: ", "::"),
        (":: ", "::"),
        (" <", "<"),
        ("< ", "<"),
        (" >", ">"),
        (" ,", ","),
        (" (", "("),
        ("( ", "("),
        (" )", ")"),
        ("& ", "&"),
        ("::std::option::", ""),
        ("::std::vec::", ""),
        ("::std::string::", ""),
        ("::std::collections::", ""),
        ("::std::num::", ""),
        ("::serde_json::", "serde_json::"),
    ] {
        text = text.replace(from, to);
    }
    text.trim().to_owned()
}

fn idents(tokens: &(impl ToTokens + ?Sized)) -> BTreeSet<String> {
    fn collect(stream: proc_macro2::TokenStream, out: &mut BTreeSet<String>) {
        for tree in stream {
            match tree {
                proc_macro2::TokenTree::Ident(ident) => drop(out.insert(ident.to_string())),
                proc_macro2::TokenTree::Group(group) => collect(group.stream(), out),
                _ => {}
            }
        }
    }
    let mut out = BTreeSet::new();
    collect(quote!(#tokens), &mut out);
    out
}

//! What progenitor's code lacks to be pleasant and safe to use, put right on the syntax tree.
//!
//! - A setter takes any [`Field`] value (`.temperature(310)`, `.box_id("…")`, a list of builders
//!   for a list of structs) instead of a `TryInto` of the exact type, and an error begins with
//!   the path of the field as the document spells it.
//! - What is wrong is kept as `InvalidRequest`, all of it, where the generators keep the first
//!   text.
//! - `send` and `stream` give the crate's own error.
//! - Answers are read leniently (`lenient.rs` of the client): `1.0` is an integer, a null list is
//!   empty.
//! - The constructors with progenitor's defaults (follow redirects, 15 seconds in all) are gone
//!   from the public interface.
//! - Builders are kept for what goes into requests only.
//!
//! [`Field`]: ../molbox/trait.Field.html

use std::collections::{BTreeMap, BTreeSet};

use quote::quote;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Attribute, Expr, ExprMethodCall, File, Ident, ImplItem, ImplItemFn, Item, ItemImpl, ItemMod,
    ItemStruct, Lit, Pat, ReturnType, Stmt, Type, Visibility, parse_quote,
};

/// Which of the generated code is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The wire types and their builders.
    Types,
    /// The wire types and the client.
    Client,
}

/// Where parameters stand and how they are spelt, by their names in Rust.
type Parameters = BTreeMap<String, (String, String)>;

/// Reworks a generated file; `requests` are the schemas that request bodies are made of.
pub(crate) fn polish(
    file: &mut File,
    scope: Scope,
    requests: &BTreeSet<String>,
    parameters: &Parameters,
) {
    if scope == Scope::Types {
        file.items.retain(|item| matches!(item, Item::Mod(module) if module.ident == "types"));
    }
    for item in &mut file.items {
        match item {
            Item::Mod(module) if module.ident == "types" => types(module, requests),
            Item::Mod(module) if module.ident == "builder" => operations(module, parameters),
            Item::Impl(item) => {
                constructors(item);
                methods(item).for_each(|method| method.attrs.iter_mut().for_each(without_example));
            }
            _ => {}
        }
    }
    file.items.retain(|item| !matches!(item, Item::Mod(module) if module.ident == "prelude"));
}

/// The fields of a struct: Rust name to the name in the document and the doc comment.
type Fields = BTreeMap<Ident, (String, Vec<Attribute>)>;

fn types(module: &mut ItemMod, requests: &BTreeSet<String>) {
    let items = items(module);
    let fields: BTreeMap<String, Fields> = items
        .iter()
        .filter_map(|item| {
            if let Item::Struct(s) = item {
                Some((s.ident.to_string(), named_fields(s)))
            } else {
                None
            }
        })
        .collect();
    // `impl Job { pub fn builder() … }` of what is never sent.
    items.retain(|item| {
        let Item::Impl(item) = item else { return true };
        requests.contains(&self_name(item))
            || !item.items.iter().any(|i| matches!(i, ImplItem::Fn(f) if f.sig.ident == "builder"))
    });

    let mut structs = Vec::new();
    let mut texts = Vec::new();
    for item in items.iter_mut() {
        match item {
            Item::Mod(error) if error.ident == "error" => {
                *self::items(error) = vec![parse_quote!(
                    pub use crate::InvalidRequest as ConversionError;
                )];
            }
            Item::Struct(answer) if !requests.contains(&answer.ident.to_string()) => {
                lenient(answer)
            }
            Item::Enum(choice) => {
                choice
                    .variants
                    .iter_mut()
                    .flat_map(|variant| &mut variant.fields)
                    .for_each(leniently);
            }
            Item::Mod(builder) if builder.ident == "builder" => {
                let items = self::items(builder);
                items.retain(|item| match item {
                    Item::Struct(s) => requests.contains(&s.ident.to_string()),
                    Item::Impl(i) => requests.contains(&self_name(i)),
                    _ => true,
                });
                structs.extend(items.iter().filter_map(|i| {
                    if let Item::Struct(s) = i { Some(s.ident.clone()) } else { None }
                }));
                for item in items {
                    Kept.visit_item_mut(item);
                    let Item::Impl(item) = item else { continue };
                    let Some(fields) = fields.get(&self_name(item)) else { continue };
                    let place = |name: &str| {
                        let spelt = fields
                            .iter()
                            .find(|(ident, _)| *ident == name)
                            .map(|(_, (spelt, _))| spelt);
                        (None, spelt.cloned().unwrap_or_else(|| name.to_owned()))
                    };
                    setters(item, fields, &place);
                    if is_trait(item, "TryFrom") {
                        all_at_once(item, fields);
                    }
                }
            }
            // Enumerations and checked strings: what can be parsed.
            Item::Impl(item) if is_trait(item, "FromStr") => {
                let Type::Path(path) = &*item.self_ty else { continue };
                texts.extend(path.path.get_ident().cloned());
                Kinds::default().visit_item_impl_mut(item);
            }
            _ => {}
        }
    }
    items.push(parse_quote!(crate::field::built!(#(#structs),*);));
    items.push(parse_quote!(crate::unknown::requests!(#(#structs),*);));
    items.push(parse_quote!(crate::field::parsed!(#(#texts),*);));
}

fn named_fields(item: &ItemStruct) -> Fields {
    let mut fields = Fields::new();
    for field in &item.fields {
        let Some(ident) = field.ident.clone() else { continue };
        let mut name = ident.to_string();
        let mut docs = Vec::new();
        for attribute in &field.attrs {
            if attribute.path().is_ident("doc") {
                docs.push(attribute.clone());
            } else if attribute.path().is_ident("serde") {
                // Other serde keys have values that this parser does not take; they come after.
                let _ = attribute.parse_nested_meta(|meta| {
                    if meta.path.is_ident("rename") {
                        name = meta.value()?.parse::<syn::LitStr>()?.value();
                    }
                    Ok(())
                });
            }
        }
        fields.insert(ident, (name, docs));
    }
    fields
}

/// Reads what means the same: see the client's `lenient.rs`; and keeps what a later version adds to
/// a page, which the document cannot leave open without losing `.stream()`.
fn lenient(answer: &mut ItemStruct) {
    if let syn::Fields::Named(fields) = &mut answer.fields
        && !fields
            .named
            .iter()
            .any(|field| field.ident.as_ref().is_some_and(|name| name == "extra"))
    {
        let extra: syn::FieldsNamed = parse_quote!({
            /// What a later version has besides.
            #[serde(flatten)]
            pub extra: ::serde_json::Map<::std::string::String, ::serde_json::Value>
        });
        fields.named.extend(extra.named);
    }
    answer.fields.iter_mut().filter(|field| field.ident.is_some()).for_each(leniently);
}

fn is_integer(ty: &str) -> bool {
    ["u64", "i64", "::std::num::NonZeroU64"].contains(&ty)
}

fn leniently(field: &mut syn::Field) {
    let ty = &field.ty;
    let written = quote!(#ty).to_string().replace(' ', "");
    let is_flat = field.attrs.iter().any(|a| quote!(#a).to_string().contains("flatten"));
    let inner = |outer: &str| written.strip_prefix(outer).and_then(|rest| rest.strip_suffix('>'));
    let attribute: Attribute = if is_flat {
        return;
    } else if is_integer(&written) {
        parse_quote!(#[serde(deserialize_with = "crate::lenient::integer")])
    } else if inner("::std::option::Option<").is_some_and(is_integer) {
        parse_quote!(#[serde(default, deserialize_with = "crate::lenient::optional_integer")])
    } else if inner("::std::vec::Vec<::std::vec::Vec<")
        .and_then(|rest| rest.strip_suffix('>'))
        .is_some_and(is_integer)
    {
        parse_quote!(#[serde(deserialize_with = "crate::lenient::integer_lists")])
    } else if inner("::std::vec::Vec<").is_some() {
        parse_quote!(#[serde(deserialize_with = "crate::lenient::list")])
    } else if inner("::std::collections::BTreeMap<::std::string::String,").is_some_and(is_integer) {
        parse_quote!(#[serde(deserialize_with = "crate::lenient::integers")])
    } else if written.starts_with("::serde_json::Map<") {
        parse_quote!(#[serde(deserialize_with = "crate::lenient::object")])
    } else {
        return;
    };
    field.attrs.push(attribute);
}

/// Errors of builders as they are, not as text.
struct Kept;

impl VisitMut for Kept {
    fn visit_type_mut(&mut self, ty: &mut Type) {
        if let Type::Path(path) = ty
            && let Some(result) = path.path.segments.last_mut().filter(|s| s.ident == "Result")
            && let syn::PathArguments::AngleBracketed(arguments) = &mut result.arguments
            && let Some(syn::GenericArgument::Type(error)) = arguments.args.iter_mut().nth(1)
            && matches!(&*error, Type::Path(path) if path.path.segments.last().is_some_and(|s| s.ident == "String"))
        {
            *error = parse_quote!(crate::InvalidRequest);
        }
        visit_mut::visit_type_mut(self, ty);
    }
}

/// Everything that is wrong with a builder, before the first of it ends the conversion.
fn all_at_once(item: &mut ItemImpl, fields: &Fields) {
    for method in methods(item).filter(|method| method.sig.ident == "try_from") {
        let fields = fields.keys();
        method.block.stmts.insert(
            0,
            parse_quote!(crate::InvalidRequest::all([#(value.#fields.as_ref().err()),*])?;),
        );
    }
}

/// The builders of the operations: one setter per parameter, `send`, perhaps `stream`.
fn operations(module: &mut ItemMod, parameters: &Parameters) {
    let place = |name: &str| {
        let (place, spelt) =
            parameters.get(name).cloned().unwrap_or_else(|| ("body".to_owned(), String::new()));
        if spelt.is_empty() { (None, place) } else { (Some(place), spelt) }
    };
    for item in items(module) {
        Kept.visit_item_mut(item);
        let Item::Impl(item) = item else { continue };
        setters(item, &Fields::new(), &place);
        let mut sends = Vec::new();
        for method in methods(item) {
            if method.sig.ident == "send" {
                let mut send: ImplItemFn = parse_quote! {
                    pub async fn send(self) {
                        self.request().await.map_err(::std::convert::Into::into)
                    }
                };
                send.attrs.clone_from(&method.attrs);
                send.sig.output = method.sig.output.clone();
                own_error(&mut send.sig.output);
                sends.push(ImplItem::Fn(send));
                parameters_at_once(method);
                Refused.visit_block_mut(&mut method.block);
                method.sig.ident = parse_quote!(request);
                method.vis = Visibility::Inherited;
            } else if method.sig.ident == "stream" {
                own_error(&mut method.sig.output);
            }
        }
        item.items.extend(sends);
    }
}

/// Everything that is wrong with the parameters of an operation, before the first of it ends the
/// call.
fn parameters_at_once(method: &mut ImplItemFn) {
    let Some(Stmt::Local(taken)) = method.block.stmts.first() else { return };
    let Pat::Struct(pattern) = &taken.pat else { return };
    let names = pattern.fields.iter().filter_map(|field| match &field.member {
        syn::Member::Named(name) if name != "client" => Some(name.clone()),
        _ => None,
    });
    let check: Stmt = parse_quote!({
        let errors: ::std::vec::Vec<::std::option::Option<&crate::InvalidRequest>> =
            ::std::vec![#(#names.as_ref().err()),*];
        crate::InvalidRequest::all(errors).map_err(crate::error::refused)?;
    });
    method.block.stmts.insert(1, check);
}

/// How an operation passes on what is wrong with its parameters and its body.
struct Refused;

impl VisitMut for Refused {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        let written = quote!(#expr).to_string();
        if written == "Error :: InvalidRequest" {
            *expr = parse_quote!(crate::error::refused);
        } else if written == "| e | e . to_string ()" {
            *expr = parse_quote!(|e| e.within("body"));
        } else {
            visit_mut::visit_expr_mut(self, expr);
        }
    }
}

/// Replaces `Error<…>` by the crate's error.
fn own_error(output: &mut ReturnType) {
    struct Own;
    impl VisitMut for Own {
        fn visit_type_mut(&mut self, ty: &mut Type) {
            if matches!(ty, Type::Path(path) if path.path.segments.len() == 1 && path.path.segments[0].ident == "Error")
            {
                *ty = parse_quote!(crate::Error);
            } else {
                visit_mut::visit_type_mut(self, ty);
            }
        }
    }
    Own.visit_return_type_mut(output);
}

/// Where a refusal has a setter's value: the part of the request, for a parameter, and the name.
type Place<'a> = dyn Fn(&str) -> (Option<String>, String) + 'a;

/// `fn x<T>(mut self, value: T) where T: TryInto<X>` becomes `fn x(mut self, value: impl
/// Field<X>)`.
fn setters(item: &mut ItemImpl, fields: &Fields, place: &Place<'_>) {
    for method in methods(item) {
        Missing { place }.visit_impl_item_fn_mut(method);
        let Some(ty) = target(method) else { continue };
        let name = &method.sig.ident;
        let docs = fields.get(name).map_or_else(|| method.attrs.clone(), |(_, docs)| docs.clone());
        let within = within(place(&name.to_string()));
        *method = parse_quote! {
            #(#docs)*
            pub fn #name(mut self, value: impl crate::Field<#ty>) -> Self {
                self.#name = value.into_field().map_err(|e| e #within);
                self
            }
        };
    }
}

/// `.within("job_id").within("path")`.
fn within((place, name): (Option<String>, String)) -> proc_macro2::TokenStream {
    let outer = place.map(|place| quote!(.within(#place)));
    quote!(.within(#name) #outer)
}

/// The type that a setter stores.
fn target(method: &ImplItemFn) -> Option<Type> {
    let predicates = &method.sig.generics.where_clause.as_ref()?.predicates;
    let ty = predicates.iter().find_map(|predicate| {
        let syn::WherePredicate::Type(predicate) = predicate else { return None };
        let syn::TypeParamBound::Trait(bound) = predicate.bounds.first()? else { return None };
        let segment = bound.path.segments.last().filter(|s| s.ident == "TryInto")?;
        let syn::PathArguments::AngleBracketed(arguments) = &segment.arguments else { return None };
        let syn::GenericArgument::Type(ty) = arguments.args.first()? else { return None };
        Some(ty.clone())
    })?;
    let body = &method.block;
    let body = quote!(#body).to_string();
    if method.sig.ident == "body" {
        // Kept as a builder, so that `body_map` can go on from it.
        let Type::Path(mut path) = ty else { return None };
        path.path.segments.insert(1, parse_quote!(builder));
        Some(Type::Path(path))
    } else if body.contains("map (Some)") {
        Some(parse_quote!(::std::option::Option<#ty>))
    } else {
        Some(ty)
    }
}

/// The generator's words for a value that was not given.
struct Missing<'a> {
    place: &'a Place<'a>,
}

impl VisitMut for Missing<'_> {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        if let Some(text) = text_of(expr, "to_string")
            && let Some(field) = text
                .strip_prefix("no value supplied for ")
                .or_else(|| text.strip_suffix(" was not initialized"))
        {
            let within = within((self.place)(field));
            *expr = parse_quote!(crate::InvalidRequest::missing() #within);
        }
        visit_mut::visit_expr_mut(self, expr);
    }
}

/// The kinds of what is wrong with a text, in the place of the generator's words alone.
#[derive(Default)]
struct Kinds {
    /// Texts of the `match` that is being visited: the values of an enumeration.
    values: Vec<String>,
}

impl VisitMut for Kinds {
    fn visit_expr_match_mut(&mut self, expr: &mut syn::ExprMatch) {
        let texts = expr.arms.iter().filter_map(|arm| match &arm.pat {
            Pat::Lit(literal) => {
                if let Lit::Str(text) = &literal.lit {
                    Some(text.value())
                } else {
                    None
                }
            }
            _ => None,
        });
        self.values = texts.collect();
        visit_mut::visit_expr_match_mut(self, expr);
    }

    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        if let Some(text) = text_of(expr, "into") {
            let kind = match text.split(' ').next() {
                Some("invalid") => {
                    let values = &self.values;
                    *expr = parse_quote!(crate::InvalidRequest::one_of(&[#(#values),*], value));
                    return;
                }
                Some("shorter") => "string_too_short",
                Some("longer") => "string_too_long",
                _ => "string_pattern_mismatch",
            };
            *expr = parse_quote!(crate::InvalidRequest::new(#kind, #text));
        }
        visit_mut::visit_expr_mut(self, expr);
    }
}

/// The text of `"…".method()`.
fn text_of(expr: &Expr, method: &str) -> Option<String> {
    let Expr::MethodCall(ExprMethodCall { receiver, method: called, .. }) = expr else {
        return None;
    };
    match &**receiver {
        Expr::Lit(literal) if called == method => {
            if let Lit::Str(text) = &literal.lit {
                Some(text.value())
            } else {
                None
            }
        }
        _ => None,
    }
}

/// progenitor's examples name neither crate nor values, and count as ignored tests.
fn without_example(attribute: &mut Attribute) {
    if let syn::Meta::NameValue(doc) = &mut attribute.meta
        && let Expr::Lit(literal) = &mut doc.value
        && let Lit::Str(text) = &literal.lit
        && let Some((before, _)) = text.value().split_once("```ignore")
    {
        let before = before.trim_end();
        doc.value = parse_quote!(#before);
    }
}

/// Hides how progenitor makes a `Client`.
fn constructors(item: &mut ItemImpl) {
    if item.trait_.is_some() || self_name(item) != "Client" {
        return;
    }
    // Its `new` follows redirects with the key, and ends every request after 15 s.
    item.items.retain(|i| !matches!(i, ImplItem::Fn(f) if f.sig.ident == "new"));
    for method in methods(item) {
        if method.sig.ident == "new_with_client" {
            method.vis = parse_quote!(pub(crate));
        }
    }
}

fn items(module: &mut ItemMod) -> &mut Vec<Item> {
    &mut module.content.as_mut().expect("generated modules are inline").1
}

fn methods(item: &mut ItemImpl) -> impl Iterator<Item = &mut ImplItemFn> {
    item.items
        .iter_mut()
        .filter_map(|item| if let ImplItem::Fn(method) = item { Some(method) } else { None })
}

/// Last word of the type that is implemented for.
fn self_name(item: &ItemImpl) -> String {
    match &*item.self_ty {
        Type::Path(path) => {
            path.path.segments.last().map(|s| s.ident.to_string()).unwrap_or_default()
        }
        _ => String::new(),
    }
}

fn is_trait(item: &ItemImpl, name: &str) -> bool {
    item.trait_
        .as_ref()
        .is_some_and(|(path, _)| path.segments.last().is_some_and(|s| s.ident == name))
}

//! What progenitor's code lacks to be pleasant and safe to use, put right on the syntax tree.
//!
//! - A setter takes any [`Field`] value (`.temperature(310)`, `.box_id("…")`, a list of builders
//!   for a list of structs) instead of a `TryInto` of the exact type, and an error begins with
//!   the path of the field as the document spells it.
//! - `send` and `stream` give the crate's own error.
//! - The constructors with progenitor's defaults (follow redirects, 15 seconds in all) are gone
//!   from the public interface.
//! - Builders are kept for what goes into requests only.
//!
//! [`Field`]: ../molbox/trait.Field.html

use std::collections::{BTreeMap, BTreeSet};

use quote::quote;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Attribute, Expr, File, Ident, ImplItem, ImplItemFn, Item, ItemImpl, ItemMod, ItemStruct, Lit, ReturnType, Type,
    Visibility, parse_quote,
};

use crate::Scope;

/// Reworks a generated file; `requests` are the schemas that request bodies are made of.
pub(crate) fn polish(file: &mut File, scope: Scope, requests: &BTreeSet<String>) {
    if scope == Scope::Types {
        file.items.retain(|item| matches!(item, Item::Mod(module) if module.ident == "types"));
    }
    for item in &mut file.items {
        match item {
            Item::Mod(module) if module.ident == "types" => types(module, requests),
            Item::Mod(module) if module.ident == "builder" => operations(module),
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
        .filter_map(|item| if let Item::Struct(s) = item { Some((s.ident.to_string(), named_fields(s))) } else { None })
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
            Item::Mod(builder) if builder.ident == "builder" => {
                let items = self::items(builder);
                items.retain(|item| match item {
                    Item::Struct(s) => requests.contains(&s.ident.to_string()),
                    Item::Impl(i) => requests.contains(&self_name(i)),
                    _ => true,
                });
                structs.extend(
                    items.iter().filter_map(|i| if let Item::Struct(s) = i { Some(s.ident.clone()) } else { None }),
                );
                for item in items {
                    if let Item::Impl(item) = item
                        && let Some(fields) = fields.get(&self_name(item))
                    {
                        setters(item, fields);
                    }
                }
            }
            // Enumerations and checked strings: what can be parsed.
            Item::Impl(item) if is_trait(item, "FromStr") => {
                let Type::Path(path) = &*item.self_ty else { continue };
                texts.extend(path.path.get_ident().cloned());
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

/// The builders of the operations: one setter per parameter, `send`, perhaps `stream`.
fn operations(module: &mut ItemMod) {
    for item in items(module) {
        let Item::Impl(item) = item else { continue };
        setters(item, &Fields::new());
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
                method.sig.ident = parse_quote!(request);
                method.vis = Visibility::Inherited;
            } else if method.sig.ident == "stream" {
                own_error(&mut method.sig.output);
            }
        }
        item.items.extend(sends);
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

/// `fn x<T>(mut self, value: T) where T: TryInto<X>` becomes `fn x(mut self, value: impl Field<X>)`.
fn setters(item: &mut ItemImpl, fields: &Fields) {
    for method in methods(item) {
        Texts.visit_impl_item_fn_mut(method);
        let Some(ty) = target(method) else { continue };
        let name = &method.sig.ident;
        let (at, docs) = fields.get(name).cloned().unwrap_or_else(|| (name.to_string(), method.attrs.clone()));
        *method = parse_quote! {
            #(#docs)*
            pub fn #name(mut self, value: impl crate::Field<#ty>) -> Self {
                self.#name = value.into_field().map_err(|e| e.at(#at));
                self
            }
        };
    }
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
struct Texts;

impl VisitMut for Texts {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        if let Expr::Lit(literal) = expr
            && let Lit::Str(text) = &literal.lit
        {
            let value = text.value();
            let field =
                value.strip_prefix("no value supplied for ").or_else(|| value.strip_suffix(" was not initialized"));
            if let Some(field) = field {
                let text = format!("{field}: required, but not given");
                *expr = parse_quote!(#text);
            }
        }
        visit_mut::visit_expr_mut(self, expr);
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
    item.items.iter_mut().filter_map(|item| if let ImplItem::Fn(method) = item { Some(method) } else { None })
}

/// Last word of the type that is implemented for.
fn self_name(item: &ItemImpl) -> String {
    match &*item.self_ty {
        Type::Path(path) => path.path.segments.last().map(|s| s.ident.to_string()).unwrap_or_default(),
        _ => String::new(),
    }
}

fn is_trait(item: &ItemImpl, name: &str) -> bool {
    item.trait_.as_ref().is_some_and(|(path, _)| path.segments.last().is_some_and(|s| s.ident == name))
}

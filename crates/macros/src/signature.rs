//! Signature of a function that becomes a tool.

use proc_macro2::Ident;
use quote::ToTokens as _;
use syn::spanned::Spanned as _;
use syn::{Attribute, Error, Expr, FnArg, ItemFn, Meta, Pat, PatType, Result, Type};

use crate::options::name_fault;

/// One argument that the model gives.
pub(crate) struct Argument {
    pub(crate) ident: Ident,
    pub(crate) ty: Type,
    /// Attributes of the field: documentation, serde, schemars, deprecation.
    pub(crate) attrs: Vec<Attribute>,
}

/// Arguments of the function call, in order.
pub(crate) enum Place {
    Argument(Box<Argument>),
    Cx,
}

/// Takes from the function what the tool is made of, and leaves what a compiler takes.
pub(crate) fn places(function: &mut ItemFn) -> Result<Vec<Place>> {
    check(function)?;
    let mut errors: Option<Error> = None;
    let mut places = Vec::new();
    for input in &mut function.sig.inputs {
        match place(input) {
            Ok(place) => places.push(place),
            Err(error) => match &mut errors {
                Some(all) => all.combine(error),
                None => errors = Some(error),
            },
        }
    }
    if let Some(errors) = errors {
        return Err(errors);
    }
    let contexts = places.iter().filter(|place| matches!(place, Place::Cx)).count();
    if contexts > 1 {
        return Err(Error::new(function.sig.inputs.span(), "one `&ToolCx` is enough"));
    }
    Ok(places)
}

fn check(function: &ItemFn) -> Result<()> {
    let sig = &function.sig;
    if sig.asyncness.is_none() {
        let text = "a tool is an async function: write `async fn`";
        return Err(Error::new(sig.fn_token.span(), text));
    }
    if !sig.generics.params.is_empty() || sig.generics.where_clause.is_some() {
        let text = "a tool has no generics: its arguments are of types that a schema is made of";
        return Err(Error::new(sig.generics.span(), text));
    }
    if !has_doc(&function.attrs) {
        let text = "a tool has a doc comment: the model reads it. Write `/// What it \
            does, and when to use it.` above";
        return Err(Error::new(sig.ident.span(), text));
    }
    Ok(())
}

fn place(input: &mut FnArg) -> Result<Place> {
    let FnArg::Typed(argument) = input else {
        let text = "a tool is a free function, without `self`; for a tool with state implement \
            `TypedTool`";
        return Err(Error::new(input.span(), text));
    };
    if let Type::Reference(reference) = &*argument.ty
        && is_cx(&reference.elem)
        && reference.mutability.is_none()
    {
        return Ok(Place::Cx);
    }
    // Also inside of another one, as in `Option<&str>`.
    if argument.ty.to_token_stream().to_string().contains('&') {
        let text = "arguments are owned, since they come from the model: write `String` for \
            `&str`, `Vec<T>` for `&[T]`. What a call may reach is `&ToolCx`";
        return Err(Error::new(argument.ty.span(), text));
    }
    if is_cx(&argument.ty) {
        return Err(Error::new(argument.ty.span(), "what a call may reach is lent: `&ToolCx`"));
    }
    named(argument).map(Box::new).map(Place::Argument)
}

fn named(argument: &mut PatType) -> Result<Argument> {
    let Pat::Ident(pattern) = &*argument.pat else {
        let text = "an argument is a name: the model gives it by that";
        return Err(Error::new(argument.pat.span(), text));
    };
    let ident = pattern.ident.clone();
    if !has_doc(&argument.attrs) {
        let text = format!(
            "argument `{ident}` has no doc comment: the model reads it. Write \
             `/// What it is.` above"
        );
        return Err(Error::new(ident.span(), text));
    }
    let of_field = |attribute: &Attribute| {
        ["doc", "serde", "schemars", "deprecated", "cfg"]
            .iter()
            .any(|name| attribute.path().is_ident(name))
    };
    let (of_fields, of_parameters): (Vec<_>, Vec<_>) =
        std::mem::take(&mut argument.attrs).into_iter().partition(of_field);
    argument.attrs = of_parameters;
    Ok(Argument { ident, ty: (*argument.ty).clone(), attrs: of_fields })
}

fn is_cx(ty: &Type) -> bool {
    let Type::Path(path) = ty else { return false };
    path.path.segments.last().is_some_and(|segment| segment.ident == "ToolCx")
}

fn has_doc(attrs: &[Attribute]) -> bool {
    docs(attrs).into_iter().any(|expr| literal(expr).is_none_or(|text| !text.trim().is_empty()))
}

/// The lines of a documentation, some of which may be macros.
pub(crate) fn docs(attrs: &[Attribute]) -> Vec<&Expr> {
    let lines = attrs.iter().filter(|attribute| attribute.path().is_ident("doc"));
    lines
        .filter_map(|attribute| match &attribute.meta {
            Meta::NameValue(pair) => Some(&pair.value),
            _ => None,
        })
        .collect()
}

/// The text of a literal.
pub(crate) fn literal(expr: &Expr) -> Option<String> {
    let Expr::Lit(lit) = expr else { return None };
    let syn::Lit::Str(text) = &lit.lit else { return None };
    Some(text.value())
}

/// Returns the text of a deprecation, if there is one.
pub(crate) fn deprecation(attrs: &[Attribute]) -> Option<String> {
    let attribute = attrs.iter().find(|attribute| attribute.path().is_ident("deprecated"))?;
    let mut note = None;
    match &attribute.meta {
        Meta::NameValue(pair) => note = literal(&pair.value),
        Meta::List(_) => {
            // A list that is none is the compiler's to refuse.
            let _refused = attribute.parse_nested_meta(|pair| {
                let text: syn::LitStr = pair.value()?.parse()?;
                if pair.path.is_ident("note") {
                    note = Some(text.value());
                }
                Ok(())
            });
        }
        Meta::Path(_) => {}
    }
    Some(note.map_or_else(|| "Deprecated.".to_owned(), |note| format!("Deprecated: {note}")))
}

/// The name for the model that a function has by itself.
pub(crate) fn name_of(ident: &Ident) -> Result<String> {
    let name = ident.to_string();
    let name = name.strip_prefix("r#").unwrap_or(&name).to_owned();
    match name_fault(&name, "tool") {
        Some(fault) => Err(Error::new(ident.span(), fault)),
        None => Ok(name),
    }
}

/// `count_words` as `CountWords`.
pub(crate) fn camel_case(name: &str) -> String {
    let words = name.split(['_', '-']).filter(|word| !word.is_empty());
    words
        .map(|word| {
            let mut letters = word.chars();
            let first = letters.next().map(|first| first.to_ascii_uppercase());
            first.into_iter().chain(letters).collect::<String>()
        })
        .collect()
}

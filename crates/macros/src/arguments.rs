//! `#[arguments]`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens as _, quote};
use syn::ext::IdentExt as _;
use syn::parse::Parser as _;
use syn::{Attribute, Data, DeriveInput, Error, Fields, LitStr, Path, Result, Token};

pub(crate) fn arguments(options: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let krate = krate.parse2(options)?;
    let item: DeriveInput = syn::parse2(item).map_err(|error| {
        Error::new(error.span(), "`#[arguments]` stands on a struct or an enum")
    })?;
    let derives = derives(&krate, is_closed(&item.data, &item.attrs));
    Ok(quote! { #derives #item })
}

fn krate(input: syn::parse::ParseStream<'_>) -> Result<TokenStream> {
    if input.is_empty() {
        return Ok(quote!(::deputize_core));
    }
    let key = input.call(Ident::parse_any)?;
    if key != "crate" {
        let text = format!("there is no option `{key}`; there is: crate");
        return Err(Error::new(key.span(), text));
    }
    input.parse::<Token![=]>()?;
    let path: Path = input.parse()?;
    Ok(quote!(#path))
}

/// Whether a type takes no fields that it does not know. Enums and flattened fields leave that to
/// serde's own defaults.
fn is_closed(data: &Data, attrs: &[Attribute]) -> bool {
    let Data::Struct(data) = data else { return false };
    let Fields::Named(fields) = &data.fields else { return false };
    !says(attrs, "deny_unknown_fields")
        && !says(attrs, "transparent")
        && !fields.named.iter().any(|field| says(&field.attrs, "flatten"))
}

/// Whether a serde attribute among these has this word.
pub(crate) fn says(attrs: &[Attribute], word: &str) -> bool {
    let mut serde = attrs.iter().filter(|attribute| attribute.path().is_ident("serde"));
    serde.any(|attribute| {
        let text = attribute.meta.to_token_stream().to_string();
        text.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|found| found == word)
    })
}

/// The derives of a type that arguments may have.
pub(crate) fn derives(krate: &TokenStream, closed: bool) -> TokenStream {
    let path = |name: &str| {
        let text = format!("{krate}::{name}").replace(' ', "");
        LitStr::new(&text, Span::call_site())
    };
    let serde = path("serde");
    let schemars = path("schemars");
    let closed = closed.then(|| quote!(#[serde(deny_unknown_fields)]));
    quote! {
        #[derive(#krate::serde::Deserialize, #krate::schemars::JsonSchema)]
        #[serde(crate = #serde)]
        #[schemars(crate = #schemars)]
        #closed
    }
}

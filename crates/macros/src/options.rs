//! Options of `#[tool(…)]`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use syn::ext::IdentExt as _;
use syn::parse::{Parse, ParseStream};
use syn::{Error, LitBool, LitInt, LitStr, Path, Result, Token, parenthesized};

/// The options, each with the place where it stands.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) toolset: Option<LitStr>,
    pub(crate) name: Option<LitStr>,
    pub(crate) type_name: Option<Ident>,
    pub(crate) krate: Option<Path>,
    pub(crate) spec: SpecOptions,
}

/// The options that become fields of the tool's specification.
#[derive(Default)]
pub(crate) struct SpecOptions {
    pub(crate) effects: Effects,
    pub(crate) kind: Option<Kind>,
    pub(crate) subject: Option<LitStr>,
    pub(crate) verb: Option<LitStr>,
    pub(crate) parent_only: Option<LitStr>,
    pub(crate) repeatable: Option<LitBool>,
    pub(crate) parallel: Option<LitBool>,
    pub(crate) time_limit_seconds: Option<LitInt>,
    pub(crate) usable: Option<Path>,
    pub(crate) examples: Vec<Example>,
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Effects {
    ReadOnly,
    WritesFiles,
    #[default]
    Unknown,
}

/// A kind of tools: its name, and that of its variant.
pub(crate) struct Kind(pub(crate) Ident);

pub(crate) struct Example {
    pub(crate) title: LitStr,
    /// JSON, for `json!`.
    pub(crate) arguments: TokenStream,
}

const KNOWN: &str = "toolset, name, type, effects, kind, subject, verb, parent_only, repeatable, parallel, \
    time_limit_seconds, usable, example, crate";

/// The kinds of tools, each with the variant of `ToolKind`.
const KINDS: [(&str, &str); 10] = [
    ("read", "Read"),
    ("edit", "Edit"),
    ("delete", "Delete"),
    ("move", "Move"),
    ("search", "Search"),
    ("execute", "Execute"),
    ("fetch", "Fetch"),
    ("delegate", "Delegate"),
    ("think", "Think"),
    ("other", "Other"),
];

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut options = Self::default();
        let mut seen: Vec<String> = Vec::new();
        while !input.is_empty() {
            let key = input.call(Ident::parse_any)?;
            let word = key.to_string();
            if word != "example" && seen.contains(&word) {
                return Err(Error::new(key.span(), format!("`{word}` is said twice")));
            }
            options.take(&key, input)?;
            seen.push(word);
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(options)
    }
}

impl Options {
    /// Takes what belongs to one option.
    fn take(&mut self, key: &Ident, input: ParseStream<'_>) -> Result<()> {
        let word = key.to_string();
        if word == "example" {
            self.spec.examples.push(example(key.span(), input)?);
            return Ok(());
        }
        if !KNOWN.split(", ").any(|known| known == word) {
            let text = format!("there is no option `{word}`; known: {KNOWN}");
            return Err(Error::new(key.span(), text));
        }
        input.parse::<Token![=]>()?;
        match word.as_str() {
            "toolset" => self.toolset = Some(name(input.parse()?, "toolset")?),
            "name" => self.name = Some(name(input.parse()?, "tool")?),
            "type" => self.type_name = Some(input.parse()?),
            "effects" => self.spec.effects = effects(&input.call(Ident::parse_any)?)?,
            "kind" => self.spec.kind = Some(kind(&input.call(Ident::parse_any)?)?),
            "subject" => self.spec.subject = Some(input.parse()?),
            "verb" => self.spec.verb = Some(input.parse()?),
            "parent_only" => self.spec.parent_only = Some(input.parse()?),
            "repeatable" => self.spec.repeatable = Some(input.parse()?),
            "parallel" => self.spec.parallel = Some(input.parse()?),
            "time_limit_seconds" => self.spec.time_limit_seconds = Some(input.parse()?),
            "usable" => self.spec.usable = Some(input.parse()?),
            _ => self.krate = Some(input.parse()?),
        }
        Ok(())
    }

    /// The way to `deputize-core`.
    pub(crate) fn krate(&self) -> TokenStream {
        self.krate.as_ref().map_or_else(|| quote!(::deputize_core), |path| quote!(#path))
    }
}

/// A name that the model or a person writes, checked as the core does it.
fn name(found: LitStr, what: &str) -> Result<LitStr> {
    match name_fault(&found.value(), what) {
        Some(fault) => Err(Error::new(found.span(), fault)),
        None => Ok(found),
    }
}

/// Returns the fault of a name, if any.
pub(crate) fn name_fault(name: &str, what: &str) -> Option<String> {
    let known = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let good = !name.is_empty() && name.len() <= 64 && name.chars().all(known);
    (!good).then(|| {
        format!("`{name}` is not a {what} name: use 1 to 64 of the characters A-Z a-z 0-9 _ -")
    })
}

fn effects(word: &Ident) -> Result<Effects> {
    match word.to_string().as_str() {
        "read_only" => Ok(Effects::ReadOnly),
        "writes_files" => Ok(Effects::WritesFiles),
        "unknown" => Ok(Effects::Unknown),
        other => {
            let text = format!(
                "there are no effects `{other}`; known: read_only (it only looks), \
                 writes_files (it changes files under the write roots), unknown (it may do anything)"
            );
            Err(Error::new(word.span(), text))
        }
    }
}

fn kind(word: &Ident) -> Result<Kind> {
    let name = word.to_string();
    let variant = KINDS.iter().find(|(known, _)| *known == name).map(|(_, variant)| *variant);
    let Some(variant) = variant else {
        let known: Vec<&str> = KINDS.iter().map(|(known, _)| *known).collect();
        let text = format!("there is no kind `{name}`; known: {}", known.join(", "));
        return Err(Error::new(word.span(), text));
    };
    Ok(Kind(Ident::new(variant, word.span())))
}

fn example(span: Span, input: ParseStream<'_>) -> Result<Example> {
    let usage = "write an example as example(\"Title\", {\"argument\": \"value\"})";
    if !input.peek(syn::token::Paren) {
        return Err(Error::new(span, usage));
    }
    let inside;
    parenthesized!(inside in input);
    let title: LitStr = inside.parse()?;
    inside.parse::<Token![,]>()?;
    if !inside.peek(syn::token::Brace) {
        return Err(Error::new(title.span(), usage));
    }
    Ok(Example { title, arguments: inside.parse()? })
}

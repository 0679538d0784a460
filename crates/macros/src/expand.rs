//! Expansion of `#[tool]`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::{Attribute, Error, ItemFn, LitStr, Result};

use crate::arguments::{derives, says};
use crate::options::{Effects, Example, Kind, Options, SpecOptions};
use crate::signature::{Argument, Place, camel_case, deprecation, docs, literal, name_of, places};

pub(crate) fn tool(options: TokenStream, function: TokenStream) -> Result<TokenStream> {
    let options: Options = syn::parse2(options)?;
    let mut function: ItemFn = syn::parse2(function).map_err(|error| {
        Error::new(error.span(), "`#[tool]` stands on an async function with a body")
    })?;
    let Some(toolset) = &options.toolset else {
        let text = "a tool belongs to a toolset, by which people give and withhold it: write \
            `#[tool(toolset = \"…\")]`";
        return Err(Error::new(function.sig.ident.span(), text));
    };
    let places = places(&mut function)?;
    let name = match &options.name {
        Some(name) => name.value(),
        None => name_of(&function.sig.ident)?,
    };
    let ident = function.sig.ident.clone();
    let plain = ident.to_string();
    let type_name = options.type_name.clone().unwrap_or_else(|| {
        Ident::new(&camel_case(plain.strip_prefix("r#").unwrap_or(&plain)), ident.span())
    });
    let krate = options.krate();
    let vis = &function.vis;
    let cfgs: Vec<&Attribute> =
        function.attrs.iter().filter(|attribute| attribute.path().is_ident("cfg")).collect();
    // A name that no type of the function's has: they are all named in its scope.
    let arguments = Ident::new(&format!("__{type_name}Arguments"), Span::call_site());
    if let Some(subject) = &options.spec.subject {
        check_subject(subject, &places)?;
    }
    let structure = structure(&krate, &arguments, &places);
    let decl = decl(&krate, &name, &arguments, &function.attrs);
    let spec = spec(&krate, &options.spec, &decl);
    let run = run(&krate, &function, &arguments, &places);
    let summary = format!("The tool `{name}`, made of [`{}`].", plain.trim_start_matches("r#"));
    Ok(quote! {
        #function

        #[doc = #summary]
        #(#cfgs)*
        #[derive(Debug, Clone, Copy, Default)]
        #vis struct #type_name;

        #(#cfgs)*
        const _: () = {
            #structure

            impl #krate::TypedTool for #type_name {
                type Args = #arguments;
                fn spec() -> #krate::ToolSpec {
                    #spec
                }
                #run
            }

            #krate::register_tool!(#toolset, #type_name);
        };
    })
}

fn arguments(places: &[Place]) -> Vec<&Argument> {
    let of_model = places.iter().filter_map(|place| match place {
        Place::Argument(argument) => Some(&**argument),
        Place::Cx => None,
    });
    of_model.collect()
}

/// Checks that the subject is one of the arguments, as far as their names are known here.
fn check_subject(subject: &LitStr, places: &[Place]) -> Result<()> {
    let wanted = subject.value();
    let arguments = arguments(places);
    let is_named = |argument: &&&Argument| argument.ident == wanted.as_str();
    let renames =
        |argument: &&&Argument| says(&argument.attrs, "rename") || says(&argument.attrs, "flatten");
    if arguments.iter().any(|argument| is_named(&argument) || renames(&argument)) {
        return Ok(());
    }
    let text =
        format!("there is no argument `{wanted}`; the subject is the argument that tells most");
    Err(Error::new(subject.span(), text))
}

/// The struct that the model's arguments become.
fn structure(krate: &TokenStream, name: &Ident, places: &[Place]) -> TokenStream {
    let arguments = arguments(places);
    let closed = !arguments.iter().any(|argument| says(&argument.attrs, "flatten"));
    let derives = derives(krate, closed);
    let fields = arguments.iter().map(|Argument { ident, ty, attrs }| {
        quote! { #(#attrs)* pub #ident: #ty }
    });
    quote! {
        #derives
        #[allow(deprecated, missing_docs, missing_debug_implementations, unreachable_pub)]
        pub struct #name { #(#fields,)* }
    }
}

/// The declaration that the model reads.
fn decl(krate: &TokenStream, name: &str, arguments: &Ident, attrs: &[Attribute]) -> TokenStream {
    let description = description(attrs);
    quote!(#krate::tool::spec_of::<#arguments>(#name, #description))
}

fn spec(krate: &TokenStream, options: &SpecOptions, decl: &TokenStream) -> TokenStream {
    let base = match options.effects {
        Effects::ReadOnly => quote!(#krate::ToolSpec::read_only(#decl)),
        Effects::WritesFiles => {
            quote!(#krate::ToolSpec::effectful(#decl, #krate::Effects::WritesFiles))
        }
        Effects::Unknown => {
            quote!(#krate::ToolSpec::effectful(#decl, #krate::Effects::Unknown))
        }
    };
    let mut set = Vec::new();
    set.extend(
        options.kind.as_ref().map(|Kind(kind)| quote!(spec.kind = #krate::ToolKind::#kind;)),
    );
    set.extend(
        options.subject.as_ref().map(
            |subject| quote!(let kind = spec.kind; let mut spec = spec.about(kind, #subject);),
        ),
    );
    set.extend(
        options.verb.as_ref().map(|verb| quote!(spec.subject = spec.subject.with_verb(#verb);)),
    );
    set.extend(options.parent_only.as_ref().map(|reason| {
        let reason = quote!(#krate::ParentOnly::Other(#reason));
        quote!(spec.parent_only = ::core::option::Option::Some(#reason);)
    }));
    for (field, value) in [("repeatable", &options.repeatable), ("parallel", &options.parallel)] {
        let field = Ident::new(field, Span::call_site());
        set.extend(value.as_ref().map(|value| quote!(spec.#field = #value;)));
    }
    set.extend(options.time_limit_seconds.as_ref().map(|seconds| {
        quote!(spec.time_limit = match #seconds {
            0 => ::core::option::Option::None,
            seconds => ::core::option::Option::Some(::core::time::Duration::from_secs(seconds)),
        };)
    }));
    set.extend(options.usable.as_ref().map(|path| quote!(spec.usable = #path();)));
    set.extend(options.examples.iter().map(|example| {
        let Example { title, arguments } = example;
        quote!(spec.examples.push(#krate::Example {
            title: #title,
            arguments: #krate::serde_json::json!(#arguments),
        });)
    }));
    if set.is_empty() {
        return base;
    }
    quote! { let mut spec = #base; #(#set)* spec }
}

/// The function's documentation as one text, known when it is compiled.
fn description(attrs: &[Attribute]) -> TokenStream {
    let lines = docs(attrs).into_iter().map(|expr| match literal(expr) {
        Some(text) => {
            let text = format!("{}\n", text.strip_prefix(' ').unwrap_or(&text));
            let text = LitStr::new(&text, expr.span());
            quote!(#text)
        }
        None => quote!(#expr, "\n"),
    });
    let deprecated = deprecation(attrs).map(|text| format!("\n{text}"));
    let lines = lines.chain(deprecated.map(|text| quote!(#text)));
    quote!(::core::concat!(#(#lines),*))
}

fn run(krate: &TokenStream, function: &ItemFn, name: &Ident, places: &[Place]) -> TokenStream {
    let ident = &function.sig.ident;
    let fields = arguments(places).into_iter().map(|argument| &argument.ident);
    let given = places.iter().map(|place| match place {
        Place::Argument(argument) => {
            let ident = &argument.ident;
            quote!(#ident)
        }
        Place::Cx => quote!(__cx),
    });
    // Told at what the function gives, where a wrong type is to be mended.
    let output = match &function.sig.output {
        syn::ReturnType::Default => ident.span(),
        syn::ReturnType::Type(_, ty) => ty.span(),
    };
    let into_result =
        quote_spanned!(output=> #krate::tool::IntoToolCallResult::into_result(__given));
    quote! {
        #[allow(deprecated, unused_variables)]
        async fn run(
            &self,
            #name { #(#fields,)* }: #name,
            __cx: &#krate::ToolCx,
        ) -> #krate::ToolCallResult {
            let __given = #ident(#(#given),*).await;
            #into_result
        }
    }
}

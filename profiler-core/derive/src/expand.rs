//! Writes the implementation of `ProfilerMarker`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Fields, LitStr, Path, Result};

use crate::attributes::{MarkerField, TypeAttributes};

/// What precedes the name of a field in a label.
const DATA: &str = "{marker.data.";

/// The implementation for a type; `core` is the path of `profiler-core`, unless the type names
/// another one.
pub(crate) fn expand(input: &DeriveInput, core: &str) -> Result<TokenStream> {
    let attributes = TypeAttributes::of(&input.attrs)?;
    let core = match &attributes.core {
        Some(core) => core.clone(),
        None => syn::parse_str::<Path>(core)?,
    };
    let fields = fields(input)?;
    let keys: Vec<String> = fields.iter().map(|(field, _)| field.key.value()).collect();
    let labels = labels(&attributes, &keys)?;
    let rows = fields.iter().map(|(field, kind)| row(field, kind, &core));
    let ident = &input.ident;
    let name = match &attributes.name {
        Some(name) => name.clone(),
        None => LitStr::new(&ident.to_string(), ident.span()),
    };
    let (impl_generics, type_generics, bounds) = input.generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        impl #impl_generics #core::marker::ProfilerMarker for #ident #type_generics #bounds {
            const TYPE_NAME: &'static str = #name;

            fn schema() -> #core::marker::schema::MarkerSchema {
                #core::marker::schema::MarkerSchema::in_chart_and_table(Self::TYPE_NAME)
                    #labels
                    #(.field(#rows))*
            }
        }
    })
}

/// The fields that serde writes, with their types.
fn fields(input: &DeriveInput) -> Result<Vec<(MarkerField, syn::Type)>> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new_spanned(
            &input.ident,
            "a marker is a struct with named fields",
        ));
    };
    if matches!(data.fields, Fields::Unnamed(_)) {
        return Err(Error::new_spanned(
            &input.ident,
            "a marker is a struct with named fields",
        ));
    }
    let mut all: Vec<(MarkerField, syn::Type)> = Vec::new();
    for field in &data.fields {
        let Some(found) = MarkerField::of(field)? else {
            continue;
        };
        if all
            .iter()
            .any(|(known, _)| known.key.value() == found.key.value())
        {
            return Err(Error::new_spanned(&found.key, "two fields have this name"));
        }
        all.push((found, field.ty.clone()));
    }
    Ok(all)
}

/// The calls that set the labels. Without labels, all fields are shown.
fn labels(attributes: &TypeAttributes, keys: &[String]) -> Result<TokenStream> {
    let values: Vec<String> = keys
        .iter()
        .map(|key| format!("{key}={DATA}{key}}}"))
        .collect();
    let all = format!("{{marker.name}} — {}", values.join(", "));
    let text = |label: &Option<LitStr>, otherwise: &str| -> Result<String> {
        let Some(label) = label else {
            return Ok(otherwise.to_owned());
        };
        check_label(label, keys)?;
        Ok(label.value())
    };
    let chart = text(&attributes.chart_label, &all)?;
    let tooltip = text(&attributes.tooltip_label, "{marker.name}")?;
    let table = text(&attributes.table_label, &all)?;
    Ok(quote! {
        .chart_label(#chart)
        .tooltip_label(#tooltip)
        .table_label(#table)
    })
}

/// Checks that the fields that a label mentions exist.
fn check_label(label: &LitStr, keys: &[String]) -> Result<()> {
    let text = label.value();
    for part in text.split(DATA).skip(1) {
        let key = part.split(['}', ' ', '?']).next().unwrap_or_default();
        if !keys.iter().any(|known| known == key) {
            return Err(Error::new_spanned(
                label,
                format!("there is no field {key:?}"),
            ));
        }
    }
    Ok(())
}

fn row(field: &MarkerField, kind: &syn::Type, core: &Path) -> TokenStream {
    let MarkerField {
        key,
        format,
        label,
        is_searchable,
        is_hidden,
    } = field;
    let format = match format {
        Some(format) => quote!(#core::marker::schema::Format::#format),
        None => quote!(<#kind as #core::marker::MarkerValue>::FORMAT),
    };
    let label = label.as_ref().map(|label| quote!(.label(#label)));
    let search = (!is_searchable).then(|| quote!(.not_searchable()));
    let hidden = is_hidden.then(|| quote!(.hidden()));
    quote!(#core::marker::schema::MarkerField::new(#key, #format) #label #search #hidden)
}

//! The attributes of a type and of its fields.
//!
//! Used by `expand`. Also reads what serde's attributes say about the name of a field, because the
//! keys of a schema are the names that serde writes. Invariant: an unknown word in `marker_type` or
//! `field` is an error.

use proc_macro2::Span;
use syn::meta::ParseNestedMeta;
use syn::{Attribute, Error, Field, Ident, LitBool, LitStr, Path, Result};

/// The names of formats, and the variants of `Format`.
const FORMATS: [(&str, &str); 20] = [
    ("url", "Url"),
    ("file-path", "FilePath"),
    ("sanitized-string", "SanitizedString"),
    ("string", "String"),
    ("unique-string", "UniqueString"),
    ("flow-id", "FlowId"),
    ("terminating-flow-id", "TerminatingFlowId"),
    ("duration", "Duration"),
    ("time", "Time"),
    ("seconds", "Seconds"),
    ("milliseconds", "Milliseconds"),
    ("microseconds", "Microseconds"),
    ("nanoseconds", "Nanoseconds"),
    ("bytes", "Bytes"),
    ("percentage", "Percentage"),
    ("integer", "Integer"),
    ("decimal", "Decimal"),
    ("hexadecimal", "Hexadecimal"),
    ("pid", "Pid"),
    ("tid", "Tid"),
];

/// What `#[marker_type(…)]` says about a type.
#[derive(Default)]
pub(crate) struct TypeAttributes {
    pub(crate) name: Option<LitStr>,
    pub(crate) chart_label: Option<LitStr>,
    pub(crate) tooltip_label: Option<LitStr>,
    pub(crate) table_label: Option<LitStr>,
    pub(crate) core: Option<Path>,
}

/// A field of a type.
pub(crate) struct MarkerField {
    /// The name that serde writes.
    pub(crate) key: LitStr,
    /// The variant of `Format`; `None` stands for that of the type.
    pub(crate) format: Option<Ident>,
    pub(crate) label: Option<LitStr>,
    pub(crate) is_searchable: bool,
    pub(crate) is_hidden: bool,
}

impl TypeAttributes {
    pub(crate) fn of(attributes: &[Attribute]) -> Result<Self> {
        let mut all = Self::default();
        for attribute in attributes {
            if attribute.path().is_ident("marker_type") {
                attribute.parse_nested_meta(|meta| all.read(&meta))?;
            } else if attribute.path().is_ident("serde") {
                refuse_rules_for_all(attribute)?;
            }
        }
        Ok(all)
    }

    fn read(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        if meta.path.is_ident("crate") {
            let value = meta.value()?;
            return set(&mut self.core, value.call(Path::parse_mod_style)?, meta);
        }
        if meta.path.is_ident("label") {
            let text: LitStr = meta.value()?.parse()?;
            set(&mut self.chart_label, text.clone(), meta)?;
            set(&mut self.tooltip_label, text.clone(), meta)?;
            return set(&mut self.table_label, text, meta);
        }
        let place = match meta.path.get_ident().map(Ident::to_string).as_deref() {
            Some("name") => &mut self.name,
            Some("chart_label") => &mut self.chart_label,
            Some("tooltip_label") => &mut self.tooltip_label,
            Some("table_label") => &mut self.table_label,
            _ => {
                let words = "name, label, chart_label, tooltip_label, table_label or crate";
                return Err(meta.error(format!("unknown attribute, expected {words}")));
            }
        };
        set(place, meta.value()?.parse()?, meta)
    }
}

impl MarkerField {
    /// The field; `None` if serde does not write it.
    pub(crate) fn of(field: &Field) -> Result<Option<Self>> {
        let name = field
            .ident
            .as_ref()
            .ok_or_else(|| Error::new_spanned(field, "the fields of a marker need names"))?;
        let text = name.to_string();
        let text = text.strip_prefix("r#").unwrap_or(&text);
        let mut is_written = true;
        let mut found = Self {
            key: LitStr::new(text, name.span()),
            format: None,
            label: None,
            is_searchable: true,
            is_hidden: false,
        };
        for attribute in &field.attrs {
            if attribute.path().is_ident("field") {
                attribute.parse_nested_meta(|meta| found.read(&meta))?;
            } else if attribute.path().is_ident("serde") {
                attribute.parse_nested_meta(|meta| found.read_serde(&meta, &mut is_written))?;
            }
        }
        Ok(is_written.then_some(found))
    }

    fn read(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        match meta.path.get_ident().map(Ident::to_string).as_deref() {
            Some("format") => set(&mut self.format, format(&meta.value()?.parse()?)?, meta),
            Some("label") => set(&mut self.label, meta.value()?.parse()?, meta),
            Some("search") => {
                self.is_searchable = flag(meta)?;
                Ok(())
            }
            Some("hidden") => {
                self.is_hidden = flag(meta)?;
                Ok(())
            }
            _ => Err(meta.error("unknown attribute, expected format, label, search or hidden")),
        }
    }

    /// Reads an attribute of serde: `rename`, `skip` and `skip_serializing`. Rejects `flatten` and
    /// other forms of `rename`, and ignores all others.
    fn read_serde(&mut self, meta: &ParseNestedMeta<'_>, is_written: &mut bool) -> Result<()> {
        if meta.path.is_ident("rename") && meta.input.peek(syn::Token![=]) {
            self.key = meta.value()?.parse()?;
            return Ok(());
        }
        if meta.path.is_ident("rename") {
            return Err(meta.error("write #[serde(rename = \"…\")] for a field of a marker"));
        }
        if meta.path.is_ident("flatten") {
            return Err(meta.error("a marker cannot have a flattened field"));
        }
        *is_written &= !meta.path.is_ident("skip") && !meta.path.is_ident("skip_serializing");
        pass_over(meta)
    }
}

/// Rejects `rename_all`, which this macro does not apply.
fn refuse_rules_for_all(attribute: &Attribute) -> Result<()> {
    attribute.parse_nested_meta(|meta| {
        if meta.path.is_ident("rename_all") {
            return Err(meta.error("rename each field of a marker with #[serde(rename = \"…\")]"));
        }
        pass_over(&meta)
    })
}

/// Reads the value of a word that has no meaning here.
fn pass_over(meta: &ParseNestedMeta<'_>) -> Result<()> {
    if meta.input.peek(syn::Token![=]) {
        meta.value()?.parse::<syn::Expr>()?;
    } else if meta.input.peek(syn::token::Paren) {
        meta.parse_nested_meta(|inner| pass_over(&inner))?;
    }
    Ok(())
}

/// The value of a word such as `search` or `search = false`.
fn flag(meta: &ParseNestedMeta<'_>) -> Result<bool> {
    if meta.input.peek(syn::Token![=]) {
        return Ok(meta.value()?.parse::<LitBool>()?.value);
    }
    Ok(true)
}

fn format(name: &LitStr) -> Result<Ident> {
    let wanted = name.value().replace('_', "-");
    let found = FORMATS.iter().find(|(known, _)| *known == wanted);
    let (_, variant) = found.ok_or_else(|| {
        let all: Vec<&str> = FORMATS.iter().map(|(known, _)| *known).collect();
        let text = format!("unknown format: expected one of {}", all.join(", "));
        Error::new_spanned(name, text)
    })?;
    Ok(Ident::new(variant, Span::call_site()))
}

fn set<T>(place: &mut Option<T>, value: T, meta: &ParseNestedMeta<'_>) -> Result<()> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(meta.error("duplicate attribute")),
    }
}

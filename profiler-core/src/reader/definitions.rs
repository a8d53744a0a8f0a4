//! Reads the definitions of a pool and keeps them by number. Used by `snapshot` and `follow`.
//!
//! Records that are incomplete, do not decode, or contradict themselves are left out: a lookup of
//! their number returns nothing, and the caller shows a placeholder. Reading stops before the
//! decoded definitions take more memory than the pool's length, which happens only if the region is
//! forged.

use std::collections::HashMap;
use std::io;
use std::sync::OnceLock;

use super::record_window::{RecordHead, RecordWindow};
use super::source::ByteSource;
use crate::codec;
use crate::ids::{DefinitionId, GroupIndex};
use crate::pool::definitions::{
    CategoryDefinition, CounterDefinition, Definition, LabelDefinition, ModuleDefinition,
    SiteDefinition,
};
use crate::pool::layout::{Layout, Region};
use crate::schema::MarkerSchema;

/// The definition of a type of marker payload.
#[derive(Clone, Debug, PartialEq)]
pub struct MarkerType {
    /// How the viewer shows it.
    pub schema: MarkerSchema,
    /// Keys of the payload's values in the order of their encoding.
    pub keys: Vec<String>,
}

/// All definitions of a pool.
#[derive(Clone, Debug, Default)]
pub struct Definitions {
    sites: HashMap<DefinitionId, SiteDefinition>,
    categories: HashMap<DefinitionId, CategoryDefinition>,
    types: HashMap<DefinitionId, MarkerType>,
    counters: Vec<CounterDefinition>,
    modules: HashMap<DefinitionId, ModuleDefinition>,
    labels: HashMap<DefinitionId, LabelDefinition>,
    /// The names of groups.
    groups: HashMap<GroupIndex, String>,
    /// Set if the profile that is being written has traces or groups of samples or markers.
    contexts: OnceLock<()>,
    notices: Vec<String>,
}

/// Maximum number of notices of a process; a healthy process has a few.
const MAX_NOTICES: usize = 32;
/// Maximum length of a notice's text that is shown.
const LONGEST_NOTICE: usize = 500;

impl Definitions {
    /// Descriptions of data missing from the process's profile, with the reasons.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Adds a notice, unless it is there already or there are too many.
    pub fn add_notice(&mut self, mut text: String) {
        text.retain(|letter| !letter.is_control());
        text.truncate(text.floor_char_boundary(LONGEST_NOTICE));
        if self.notices.len() < MAX_NOTICES && !self.notices.contains(&text) {
            self.notices.push(text);
        }
    }

    /// The call site with this number.
    pub fn site(&self, id: DefinitionId) -> Option<&SiteDefinition> {
        self.sites.get(&id)
    }

    /// The category with this number.
    pub fn category(&self, id: DefinitionId) -> Option<&CategoryDefinition> {
        self.categories.get(&id)
    }

    /// The payload type with this number.
    pub fn marker_type(&self, id: DefinitionId) -> Option<&MarkerType> {
        self.types.get(&id)
    }

    /// All categories, in the order in which they were defined.
    pub fn categories(&self) -> Vec<&CategoryDefinition> {
        in_order(&self.categories)
    }

    /// All payload types, in the order in which they were defined.
    pub fn marker_types(&self) -> Vec<&MarkerType> {
        in_order(&self.types)
    }

    /// All payload types with their numbers.
    pub fn types_by_id(&self) -> impl Iterator<Item = (DefinitionId, &MarkerType)> {
        self.types
            .iter()
            .map(|(id, marker_type)| (*id, marker_type))
    }

    /// All counters, in the order in which they were defined.
    pub fn counters(&self) -> &[CounterDefinition] {
        &self.counters
    }

    /// The module with this number: a file whose code ran in the process.
    pub fn module(&self, id: DefinitionId) -> Option<&ModuleDefinition> {
        self.modules.get(&id)
    }

    /// All modules with their numbers, in the order in which they were seen.
    pub fn modules(&self) -> Vec<(DefinitionId, &ModuleDefinition)> {
        let mut all: Vec<_> = self
            .modules
            .iter()
            .map(|(id, module)| (*id, module))
            .collect();
        all.sort_unstable_by_key(|(id, _)| *id);
        all
    }

    /// Whether there are any modules.
    pub fn has_modules(&self) -> bool {
        !self.modules.is_empty()
    }

    /// Whether there are any labels.
    pub fn has_labels(&self) -> bool {
        !self.labels.is_empty()
    }

    /// The label with this number.
    pub fn label(&self, id: DefinitionId) -> Option<&LabelDefinition> {
        self.labels.get(&id)
    }

    /// All labels with their numbers, in the order in which they were defined.
    pub fn labels(&self) -> Vec<(DefinitionId, &LabelDefinition)> {
        let mut all: Vec<_> = self.labels.iter().map(|(id, label)| (*id, label)).collect();
        all.sort_unstable_by_key(|(id, _)| *id);
        all
    }

    /// Notes that the profile that is being written has traces or groups of samples or markers.
    pub fn note_contexts(&self) {
        let _ = self.contexts.set(());
    }

    /// Whether [`Self::note_contexts`] was called.
    pub fn has_contexts(&self) -> bool {
        self.contexts.get().is_some()
    }

    /// The name of the performance group with this cell.
    pub fn group(&self, cell: GroupIndex) -> Option<&str> {
        self.groups.get(&cell).map(String::as_str)
    }

    fn add(&mut self, id: DefinitionId, definition: Definition) {
        match definition {
            Definition::Category(category) => {
                self.categories.insert(id, category);
            }
            Definition::MarkerType { schema, keys } => {
                if let Ok(schema) = codec::decode::<MarkerSchema>(&schema) {
                    self.types.insert(id, MarkerType { schema, keys });
                }
            }
            Definition::Site(site) => {
                self.sites.insert(id, site);
            }
            Definition::Counter(counter) => self.counters.push(counter),
            Definition::Module(module) => {
                if module.start < module.end {
                    self.modules.insert(id, module);
                }
            }
            // `reader::groups` looks up the rest of it.
            Definition::Group { cell, name, .. } => {
                self.groups.insert(cell, name);
            }
            Definition::Notice { text } => self.add_notice(text),
            Definition::Label(label) => {
                self.labels.insert(id, label);
            }
        }
    }
}

fn in_order<T>(by_id: &HashMap<DefinitionId, T>) -> Vec<&T> {
    let mut all: Vec<_> = by_id.iter().collect();
    all.sort_unstable_by_key(|(id, _)| **id);
    all.into_iter().map(|(_, value)| value).collect()
}

/// Approximate size of a decoded definition in bytes; larger than its encoded form, because an
/// empty text takes 1 byte encoded and 24 bytes decoded.
fn weight(definition: &Definition) -> u64 {
    let text = |text: &String| 32 + text.len() as u64;
    let texts = |texts: &[String]| texts.iter().map(text).sum::<u64>();
    128 + match definition {
        Definition::Category(category) => {
            text(&category.name) + text(&category.color) + texts(&category.subcategories)
        }
        Definition::MarkerType { schema, keys } => 8 * schema.len() as u64 + texts(keys),
        Definition::Site(site) => text(&site.name),
        Definition::Counter(counter) => {
            text(&counter.name) + text(&counter.category) + text(&counter.description)
        }
        Definition::Module(module) => text(&module.path) + module.build_id.len() as u64,
        Definition::Group {
            kind, name, labels, ..
        } => {
            text(kind)
                + text(name)
                + labels
                    .iter()
                    .map(|(key, value)| text(key) + text(value))
                    .sum::<u64>()
        }
        Definition::Label(label) => text(&label.name) + text(&label.file),
        Definition::Notice { text: notice } => text(notice),
    }
}

/// Maximum number of unfinished records that are read again; further ones are skipped.
const MAX_UNFINISHED: usize = 64;

/// Reads the region from its start to the first word that was never written.
pub(super) fn read(source: &impl ByteSource, layout: &Layout) -> io::Result<Definitions> {
    let mut reader = DefinitionsReader::default();
    reader.read_on(source, layout)?;
    Ok(reader.definitions)
}

/// Reads the region incrementally as it grows.
#[derive(Debug, Default)]
pub(super) struct DefinitionsReader {
    definitions: Definitions,
    /// Offset of the first record that did not exist yet.
    at: u64,
    /// Memory taken by the records read so far.
    weight: u64,
    /// Offsets of the records that were being written.
    unfinished: Vec<u64>,
}

impl DefinitionsReader {
    /// The definitions read so far.
    pub(super) const fn definitions(&self) -> &Definitions {
        &self.definitions
    }

    /// Reads the records added since the last call. Costs one read if there are none.
    pub(super) fn read_on(&mut self, source: &impl ByteSource, layout: &Layout) -> io::Result<()> {
        let mut window = RecordWindow::new(source, layout.region(Region::Definitions));
        for at in std::mem::take(&mut self.unfinished) {
            if let Some(head) = window.head(at)? {
                self.take(&mut window, layout, at, &head)?;
            }
        }
        while self.weight < layout.pool_len {
            let Some(head) = window.head(self.at)? else {
                break;
            };
            self.take(&mut window, layout, self.at, &head)?;
            self.at = head.end;
        }
        Ok(())
    }

    fn take<S: ByteSource>(
        &mut self,
        window: &mut RecordWindow<'_, S>,
        layout: &Layout,
        at: u64,
        head: &RecordHead,
    ) -> io::Result<()> {
        if !head.is_ready {
            if self.unfinished.len() < MAX_UNFINISHED {
                self.unfinished.push(at);
            }
            return Ok(());
        }
        let definition = codec::decode(&window.content(at, head)?);
        if let (Ok(definition), Ok(number)) = (definition, u32::try_from(at / 8 + 1)) {
            self.weight = self.weight.saturating_add(weight(&definition));
            if self.weight < layout.pool_len {
                self.definitions.add(DefinitionId::new(number), definition);
            }
        }
        Ok(())
    }
}

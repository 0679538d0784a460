//! Tools by name, their origins, and their registration by crates.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::Tool;
use super::entry::CatalogEntry;
use super::index::{IndexedCall, ToolIndex};
use crate::future::BoxFuture;
use crate::name::{NameError, ToolName, ToolsetName};
use crate::origin::Origin;
use crate::tool_spec::{ToolDecl, ToolSpec};

/// Source of tools that change while the program runs, such as those of MCP servers.
pub trait ToolSource: Send + Sync {
    /// Returns all current tools of the program, for agents that start from now on, and notes about
    /// missing ones. Each note is returned once.
    fn now(&self) -> BoxFuture<'_, (Arc<Catalog>, Vec<String>)>;
}

const fn _object_safe(_: &dyn ToolSource) {}

/// Why the tools of a program do not form a catalog.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum CatalogError {
    /// A linked crate registers no tool.
    #[error(
        "tool crate `{krate}` is linked but registers no tool; put `#[tool]` on its functions, or \
         `register_tool!` beside its types"
    )]
    Empty {
        /// Name of the crate.
        krate: &'static str,
    },
    /// Two tools have the same name.
    #[error("two tools are called `{name}`: one of {first}, one of {second}; rename one of them")]
    Twice {
        /// Name of the tool.
        name: ToolName,
        /// Origin of the first tool.
        first: Origin,
        /// Origin of the second tool.
        second: Origin,
    },
    /// A toolset has an invalid name.
    #[error("tool `{tool}` of crate `{krate}` names a bad toolset")]
    Toolset {
        /// Name of the tool.
        tool: ToolName,
        /// Name of the crate.
        krate: &'static str,
        /// Why the name is invalid.
        #[source]
        source: NameError,
    },
}

/// What a composite toolset is made of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolsetParts {
    /// Tools of other toolsets.
    pub tools: BTreeSet<ToolName>,
    /// Whole toolsets, composite or not.
    pub includes: BTreeSet<ToolsetName>,
}

/// The tools of a program, unique and ordered by name.
#[derive(Clone, Default, Debug)]
pub struct Catalog {
    entries: BTreeMap<ToolName, (CatalogEntry, Arc<ToolDecl>)>,
    /// Tools under the names they have with other settings.
    former: BTreeMap<ToolName, CatalogEntry>,
    /// Names for tools of other toolsets.
    composites: BTreeMap<ToolsetName, ToolsetParts>,
    /// What models are sent instead of many tools of servers.
    index: Option<Arc<ToolIndex>>,
}

impl Catalog {
    /// Returns the tools that the linked crates registered.
    ///
    /// Crates that were linked without being named are included; a *named* crate without tools is
    /// an error, because it means a forgotten registration.
    ///
    /// # Errors
    /// If a named crate registers no tool, a toolset name is invalid, or two tools share a name.
    pub fn linked(crates: &[ToolCrate]) -> Result<Self, CatalogError> {
        let mut found: Vec<&Registration> = inventory::iter::<Registration>().collect();
        found.sort_by_key(|registration| (registration.krate, registration.toolset));
        let mut catalog = Self::default();
        let mut brought = BTreeSet::new();
        for registration in found {
            let tool = (registration.make)();
            let toolset = ToolsetName::new(registration.toolset).map_err(|source| {
                let tool = tool.spec().decl.name.clone();
                CatalogError::Toolset { tool, krate: registration.krate, source }
            })?;
            let origin = Origin::Linked { krate: registration.krate.to_owned() };
            catalog.insert(CatalogEntry { toolset, origin, tool })?;
            brought.insert(registration.krate);
        }
        for composite in inventory::iter::<CompositeToolset>() {
            let name = ToolsetName::new(composite.name);
            let tools = composite.tools.iter().map(|tool| ToolName::new(*tool)).collect();
            let includes = composite.includes.iter().map(|set| ToolsetName::new(*set)).collect();
            if let (Ok(name), Ok(tools), Ok(includes)) = (name, tools, includes) {
                catalog.insert_composite(name, ToolsetParts { tools, includes });
            }
        }
        match crates.iter().find(|link| !brought.contains(link.name)) {
            Some(empty) => Err(CatalogError::Empty { krate: empty.name }),
            None => Ok(catalog),
        }
    }

    /// Returns the toolsets for which linked crates registered tools, and the composite ones.
    /// Creates no tool and does not check whether the tools fit together.
    #[must_use]
    pub fn linked_toolsets() -> BTreeSet<ToolsetName> {
        let of_tools = inventory::iter::<Registration>().map(|registration| registration.toolset);
        let composite = inventory::iter::<CompositeToolset>().map(|composite| composite.name);
        of_tools.chain(composite).filter_map(|name| ToolsetName::new(name).ok()).collect()
    }

    /// Adds a composite toolset: a name for tools that belong to other toolsets. Tools and toolsets
    /// that the catalog does not have are left out where it is used. Parts of a name that is there
    /// already are added to it.
    pub fn insert_composite(&mut self, name: ToolsetName, parts: ToolsetParts) {
        let all = self.composites.entry(name).or_default();
        all.tools.extend(parts.tools);
        all.includes.extend(parts.includes);
    }

    /// Returns the composite toolsets that have a tool here, by name.
    pub fn composites(&self) -> impl Iterator<Item = &ToolsetName> {
        let has_tool = |name: &&ToolsetName| self.iter().any(|entry| self.includes(name, entry));
        self.composites.keys().filter(has_tool)
    }

    /// Returns whether a toolset, composite or not, has this tool.
    #[must_use]
    pub fn includes(&self, toolset: &ToolsetName, entry: &CatalogEntry) -> bool {
        // Each is looked into once: toolsets may include each other.
        let mut left = vec![toolset];
        let mut visited = BTreeSet::new();
        while let Some(toolset) = left.pop() {
            if entry.toolset == *toolset {
                return true;
            }
            let parts = self.composites.get(toolset).filter(|_| visited.insert(toolset));
            if parts.is_some_and(|parts| parts.tools.contains(entry.name())) {
                return true;
            }
            left.extend(parts.into_iter().flat_map(|parts| &parts.includes));
        }
        false
    }

    /// Adds a tool.
    ///
    /// # Errors
    /// If its name is taken.
    pub fn insert(&mut self, entry: CatalogEntry) -> Result<(), CatalogError> {
        let name = entry.name().clone();
        if let Some((first, _)) = self.entries.get(&name) {
            let first = first.origin.clone();
            return Err(CatalogError::Twice { name, first, second: entry.origin });
        }
        let decl = Arc::new(entry.tool.spec().decl.clone());
        self.entries.insert(name, (entry, decl));
        Ok(())
    }

    /// Returns the catalog with only the tools that `keep` accepts.
    #[must_use]
    pub fn filtered(&self, mut keep: impl FnMut(&CatalogEntry) -> bool) -> Self {
        let kept = self.entries.iter().filter(|(_, (entry, _))| keep(entry));
        let entries = kept.map(|(name, held)| (name.clone(), held.clone())).collect();
        Self { entries, ..self.clone() }
    }

    /// Sets what models are sent instead of many tools of servers.
    ///
    /// # Errors
    /// If the name of one of its tools is taken.
    pub fn set_index(&mut self, index: ToolIndex) -> Result<(), CatalogError> {
        for entry in index.tools() {
            let name = entry.name().clone();
            if let Some(first) = self.get(name.as_str()) {
                let (first, second) = (first.origin.clone(), entry.origin.clone());
                return Err(CatalogError::Twice { name, first, second });
            }
        }
        self.index = Some(Arc::new(index));
        Ok(())
    }

    /// Returns the catalog without an index.
    #[must_use]
    pub fn without_index(self) -> Self {
        Self { index: None, ..self }
    }

    /// Returns what models are sent instead of many tools of servers, if there is such an index.
    /// Its tools are no entries.
    #[must_use]
    pub fn index(&self) -> Option<&ToolIndex> {
        self.index.as_deref()
    }

    /// Adds a tool under the name it has with other settings. No agent has it; see
    /// [`Catalog::spawner`].
    pub fn insert_former(&mut self, entry: CatalogEntry) {
        self.former.insert(entry.name().clone(), entry);
    }

    /// Returns the tool that takes over a recorded call of this name that started agents in an
    /// earlier process: a tool that starts agents, even if it has another name now.
    #[must_use]
    pub fn spawner(&self, name: &str) -> Option<&CatalogEntry> {
        let starts_agents = |entry: &&CatalogEntry| entry.tool.spec().spawns;
        let former = || self.former.get(name).filter(starts_agents);
        self.get(name).filter(starts_agents).or_else(former)
    }

    /// Returns a tool by name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&CatalogEntry> {
        self.entries.get(name).map(|(entry, _)| entry)
    }

    /// Returns the spec of a recorded call's tool, even if it has another name now.
    #[must_use]
    pub fn spec(&self, name: &str) -> Option<&ToolSpec> {
        let indexed = || self.index.as_ref().and_then(|index| index.get(name));
        let entry = self.get(name).or_else(|| self.former.get(name)).or_else(indexed)?;
        Some(entry.tool.spec())
    }

    /// Returns the tool and the arguments that a call through the index stands for; `None` if it is
    /// not through the index, or names no tool that the index has.
    pub(super) fn target(&self, tool: &str, arguments: &str) -> Option<(String, String)> {
        self.index().filter(|index| tool == index.call.name().as_str())?;
        let IndexedCall { name, arguments } = IndexedCall::parse(arguments)?;
        self.get(&name).filter(|entry| ToolIndex::has(entry))?;
        Some((name, Value::Object(arguments).to_string()))
    }

    /// Returns the tool and the arguments of a call as a model wrote it: those of the other tool, if
    /// the call is through the index.
    #[must_use]
    pub fn read_call<'a>(&self, tool: &'a str, arguments: &'a str) -> (Cow<'a, str>, Cow<'a, str>) {
        match self.target(tool, arguments) {
            Some((tool, arguments)) => (Cow::Owned(tool), Cow::Owned(arguments)),
            None => (Cow::Borrowed(tool), Cow::Borrowed(arguments)),
        }
    }

    /// Returns the declaration of a tool whose declaration is the same for every agent: one value
    /// that all agents share.
    #[must_use]
    pub fn declaration(&self, name: &str) -> Option<&Arc<ToolDecl>> {
        self.entries.get(name).map(|(_, decl)| decl)
    }

    /// Returns all tools, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = &CatalogEntry> {
        self.entries.values().map(|(entry, _)| entry)
    }

    /// Returns all toolsets that have a tool here, without the composite ones.
    #[must_use]
    pub fn toolsets(&self) -> BTreeSet<ToolsetName> {
        self.iter().map(|entry| entry.toolset.clone()).collect()
    }
}

impl<'c> IntoIterator for &'c Catalog {
    type Item = &'c CatalogEntry;
    type IntoIter = Box<dyn Iterator<Item = &'c CatalogEntry> + 'c>;

    fn into_iter(self) -> Self::IntoIter {
        Box::new(self.iter())
    }
}

/// The `LINK` of a tool crate. Naming it links the crate, its type pins the version of this crate,
/// and its value names the crate that must have registered tools.
#[derive(Debug, Clone, Copy)]
pub struct ToolCrate {
    /// The crate's name.
    pub name: &'static str,
    /// The crate's version.
    pub version: &'static str,
    /// A function of the crate, so that the linker sees a real reference.
    pub anchor: fn(),
}

/// The registration that `register_tool!` submits.
#[derive(Debug)]
pub struct Registration {
    /// The registering crate.
    pub krate: &'static str,
    /// The tool's toolset.
    pub toolset: &'static str,
    /// Creates the tool.
    pub make: fn() -> Arc<dyn Tool>,
}

inventory::collect!(Registration);

/// The registration that `register_toolset!` submits: a name for tools that belong to other
/// toolsets.
#[derive(Debug)]
pub struct CompositeToolset {
    /// The name of the composite toolset.
    pub name: &'static str,
    /// Names of its tools.
    pub tools: &'static [&'static str],
    /// Names of toolsets that it includes.
    pub includes: &'static [&'static str],
}

inventory::collect!(CompositeToolset);

/// Registers a composite toolset; takes its name and the names of its tools, or of the toolsets
/// that it includes. The tools belong to toolsets of their own, and a program may give agents
/// either.
///
/// ```
/// deputize_core::register_toolset!("file_read", ["list_dir", "read_file"]);
/// deputize_core::register_toolset!("reading", includes ["file_read", "web"]);
/// ```
#[macro_export]
macro_rules! register_toolset {
    ($name:literal, [$($tool:literal),+ $(,)?]) => {
        $crate::inventory::submit! {
            $crate::tool::CompositeToolset { name: $name, tools: &[$($tool),+], includes: &[] }
        }
    };
    ($name:literal, includes [$($toolset:literal),+ $(,)?]) => {
        $crate::inventory::submit! {
            $crate::tool::CompositeToolset { name: $name, tools: &[], includes: &[$($toolset),+] }
        }
    };
}

/// Registers a [`TypedTool`](crate::TypedTool); takes the name of its toolset and an expression.
#[macro_export]
macro_rules! register_tool {
    ($toolset:literal, $tool:expr) => {
        $crate::inventory::submit! {
            $crate::tool::Registration {
                krate: env!("CARGO_PKG_NAME"),
                toolset: $toolset,
                make: || $crate::erase($tool),
            }
        }
    };
}

/// Defines `LINK`; used once, in a tool crate's `lib.rs`.
#[macro_export]
macro_rules! tool_crate {
    () => {
        /// Names this tool crate: `Cli::new().tools(this_crate::LINK)` links it.
        pub const LINK: $crate::ToolCrate = {
            #[inline(never)]
            fn anchor() {}
            $crate::ToolCrate {
                name: env!("CARGO_PKG_NAME"),
                version: env!("CARGO_PKG_VERSION"),
                anchor,
            }
        };
    };
}

//! What a call of one and the same tool costs by each way to it: linked, loaded into this process,
//! loaded into a process of its own, and behind an MCP server on its standard streams. The tool is
//! `image_facts` of `plugins/image`, asked about a picture of one pixel.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use deputize_core::{BoxFuture, Cancel, Catalog, Resource as _};
use deputize_mcp::serve::{
    AgentService, InvalidCall, ProgressSink, ServeState, ServedAnswer, ServedTool, ServerInfo,
};
use deputize_mcp::{
    HintCommands, ServerConfig, ServerDirectory, ServerRecord, Servers, ToolFilter, look, offer,
};
use deputize_plugin_host::{
    Description, HostProgram, InProcessPlugin, IsolatedPlugin, PluginBoundary, PluginFile, entries,
};
use deputize_process::Supervisor;
use deputize_testkit::ToolHarness;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::spread::Spread;
use crate::table::{Goal, Report, Row};

/// As this program is started to be the process of a plugin.
pub(crate) const PLUGIN_HOST: &str = "plugin-host";
/// As it is started to be the MCP server, with its directory behind it.
pub(crate) const MCP_SERVER: &str = "mcp-server";

const TOOL: &str = "image_facts";
const FILE: &str = "pixel.png";
/// Calls, one after the other, of which one value is the mean.
const CALLS: u32 = 100;
/// A picture of one pixel.
const PIXEL: &str = "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000a\
                     49444154789c6360000000020001e221bc330000000049454e44ae426082";

/// How the tool is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallPath {
    Linked,
    Inside,
    Isolated,
    Mcp,
}

const WAYS: [CallPath; 4] = [CallPath::Linked, CallPath::Inside, CallPath::Isolated, CallPath::Mcp];

impl CallPath {
    const fn name(self) -> &'static str {
        match self {
            Self::Linked => "linked",
            Self::Inside => "a plugin in this process",
            Self::Isolated => "an isolated plugin",
            Self::Mcp => "an MCP server, stdio",
        }
    }
}

/// What all ways need.
struct BenchPlace {
    dir: TempDir,
    program: PathBuf,
    library: PathBuf,
    sha256: String,
    supervisor: Arc<Supervisor>,
}

/// The tool by one way, not yet called.
struct ReachableTool {
    bench: ToolHarness,
    name: String,
    servers: Option<Arc<Servers>>,
}

impl ReachableTool {
    async fn call(&self) -> io::Result<String> {
        let output = self.bench.call(&self.name, json!({ "path": FILE })).await;
        output.map(|output| output.content).map_err(io::Error::other)
    }

    /// Ends what was started for it.
    async fn end(self) {
        if let Some(servers) = self.servers {
            servers.close().await;
        }
        self.bench.agent().session.settings.close().await;
    }
}

/// Measures the calls. The library is where cargo puts those that this program depends on.
pub(crate) fn measure(bench: &Path, runs: usize, report: &mut Report) -> io::Result<()> {
    let place = BenchPlace::new(bench)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut first = vec![Vec::new(); WAYS.len()];
    let mut later = vec![Vec::new(); WAYS.len()];
    runtime.block_on(async {
        for run in 0..runs.max(1) {
            // None is always the first.
            for turn in 0..WAYS.len() {
                let at = (run + turn) % WAYS.len();
                let (Some(way), Some(first), Some(later)) =
                    (WAYS.get(at), first.get_mut(at), later.get_mut(at))
                else {
                    continue;
                };
                let (begun, each) = place.once(*way).await?;
                first.push(begun);
                later.push(each);
            }
        }
        io::Result::Ok(())
    })?;
    let mut rows = |what: &str, unit, values: Vec<Vec<f64>>| {
        let spreads: Vec<Spread> = values.into_iter().map(Spread::of).collect();
        let linked = spreads.first().cloned();
        for (way, ours) in WAYS.iter().zip(spreads) {
            let floor = linked.clone().filter(|_| *way != CallPath::Linked);
            let figure = format!("{what}: {}", way.name());
            report.rows.push(Row { figure, unit, floor, ours, goal: Goal::None });
        }
    };
    rows("a call", "µs", later);
    rows("the first call", "ms", first);
    Ok(())
}

impl BenchPlace {
    fn new(bench: &Path) -> io::Result<Self> {
        let dir = tempfile::tempdir()?;
        let pixel = data_encoding::HEXLOWER.decode(PIXEL.as_bytes()).map_err(io::Error::other)?;
        std::fs::write(dir.path().join(FILE), pixel)?;
        let start = std::env::consts::DLL_PREFIX;
        let end = std::env::consts::DLL_SUFFIX;
        let library =
            bench.with_file_name("deps").join(format!("{start}deputize_plugin_image{end}"));
        let file = PluginFile::read(&library).map_err(io::Error::other)?;
        let sha256 = file.sha256().to_owned();
        let supervisor = Arc::new(Supervisor::start().map_err(io::Error::other)?);
        Ok(Self { dir, program: bench.to_owned(), library, sha256, supervisor })
    }

    /// Milliseconds of the first call by a way, with what is started for it, and microseconds of
    /// each one after it.
    async fn once(&self, way: CallPath) -> io::Result<(f64, f64)> {
        let reached = self.reach(way).await?;
        let begun = Instant::now();
        let text = reached.call().await?;
        let first = begun.elapsed();
        if !text.starts_with("format: png\nwidth: 1\n") {
            return Err(io::Error::other(format!("{}: it says: {text}", way.name())));
        }
        let begun = Instant::now();
        for _ in 0..CALLS {
            if reached.call().await? != text {
                return Err(io::Error::other(format!("{}: it says something else", way.name())));
            }
        }
        let each = begun.elapsed() / CALLS;
        reached.end().await;
        Ok((first.as_secs_f64() * 1e3, each.as_secs_f64() * 1e6))
    }

    async fn reach(&self, way: CallPath) -> io::Result<ReachableTool> {
        let bench = |catalog| ToolHarness::of(self.dir.path(), catalog);
        let plugin = |boundary| async move { self.plugin(boundary).await.map(bench) };
        let reached = |bench| ReachableTool { bench, name: TOOL.to_owned(), servers: None };
        Ok(match way {
            CallPath::Linked => reached(bench(linked()?)),
            CallPath::Inside => {
                let inside = InProcessPlugin::new(self.library.clone(), self.sha256.clone());
                reached(plugin(Arc::new(inside)).await?)
            }
            CallPath::Isolated => {
                let args = vec![OsString::from(PLUGIN_HOST)];
                let program = HostProgram {
                    program: self.program.clone(),
                    args,
                    env: BTreeMap::new(),
                    memory_mb: 1024,
                };
                let by = Arc::clone(&self.supervisor);
                let library = self.library.clone();
                let sha256 = self.sha256.clone();
                let owned = move |_: Option<&_>| Ok(Arc::clone(&by));
                let isolated = IsolatedPlugin::new(library, sha256, program, owned);
                reached(plugin(Arc::new(isolated)).await?)
            }
            CallPath::Mcp => self.mcp().await?,
        })
    }

    async fn plugin(&self, boundary: Arc<dyn PluginBoundary>) -> io::Result<Catalog> {
        // What it has is known from an earlier run, as it mostly is.
        let kept = InProcessPlugin::new(self.library.clone(), self.sha256.clone()).describe().await;
        let description = kept.and_then(|text| Description::parse(&text));
        let description = description.map_err(io::Error::other)?;
        let mut catalog = Catalog::default();
        for entry in entries(&description, &self.library, &boundary) {
            catalog.insert(entry).map_err(io::Error::other)?;
        }
        Ok(catalog)
    }

    async fn mcp(&self) -> io::Result<ReachableTool> {
        let dir = self.dir.path();
        let args = vec![OsString::from(MCP_SERVER), dir.as_os_str().to_owned()];
        let server = ServerConfig::program(
            "bench",
            &self.program,
            args,
            BTreeMap::new(),
            ServerDirectory::At(dir.into()),
        );
        let server = server.map_err(io::Error::other)?;
        let [once, by] = std::array::from_fn(|_| Arc::clone(&self.supervisor));
        let listed = look(server.clone(), dir, move || Ok(Arc::clone(&once))).await;
        let mut record = ServerRecord::default();
        record.record_and_approve(&server.start(), listed.map_err(io::Error::other)?);
        let mut catalog = Catalog::default();
        let commands = HintCommands { review: "bench review".into(), test: "bench test".into() };
        let offered = offer("bench", &record, &server.start(), &ToolFilter::default(), &commands);
        for entry in offered.entries {
            catalog.insert(entry).map_err(io::Error::other)?;
        }
        let bench = ToolHarness::of(dir, catalog);
        let servers = || Servers::new(vec![server], dir, move |_| Ok(Arc::clone(&by)));
        let servers = bench.agent().session.settings.get_or_insert_with(servers);
        Ok(ReachableTool { bench, name: format!("mcp__bench__{TOOL}"), servers: Some(servers) })
    }
}

/// The tool as this program has it.
fn linked() -> io::Result<Catalog> {
    let all = Catalog::linked(&[deputize_plugin_image::LINK]).map_err(io::Error::other)?;
    Ok(all.filtered(|entry| entry.name().as_str() == TOOL))
}

/// The linked tool, for an MCP client.
struct LinkedService(ToolHarness);

impl AgentService for LinkedService {
    fn offers(&self) -> BoxFuture<'_, Vec<ServedTool>> {
        let decl = self.0.agent().catalog.get(TOOL).map(|entry| entry.tool.spec().decl.clone());
        let offered = decl.map(|decl| ServedTool {
            name: TOOL,
            description: decl.description,
            parameters: decl.parameters.to_value().as_object().cloned().unwrap_or_default(),
        });
        Box::pin(std::future::ready(offered.into_iter().collect()))
    }

    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: Map<String, Value>,
        _: ProgressSink,
        _: Cancel,
    ) -> BoxFuture<'a, Result<ServedAnswer, InvalidCall>> {
        Box::pin(async move {
            Ok(match self.0.call(tool, Value::Object(arguments)).await {
                Ok(output) => ServedAnswer { text: output.content, data: None, failed: false },
                Err(error) => ServedAnswer { text: error.to_string(), data: None, failed: true },
            })
        })
    }
}

/// Serves the tool until the client is gone; paths belong to this directory.
pub(crate) fn serve(dir: Option<PathBuf>) -> io::Result<()> {
    let dir = dir.ok_or_else(|| io::Error::other("the server needs a directory"))?;
    let work = Arc::new(LinkedService(ToolHarness::of(dir, linked()?)));
    let who = ServerInfo { name: "bench", version: "1", instructions: String::new() };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let desk = ServeState::new(who, work, Cancel::new());
    let input: File = io::stdin().as_fd().try_clone_to_owned()?.into();
    let output: File = io::stdout().as_fd().try_clone_to_owned()?.into();
    let [input, output] = [input, output].map(tokio::fs::File::from_std);
    let served = runtime.block_on(desk.streams(input, output));
    // One of its threads reads standard input.
    runtime.shutdown_background();
    served
}

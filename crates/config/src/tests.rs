//! The configuration as a whole: a table of broken files, laws, layers and models.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use deputize_providers::Wire;
use insta::assert_snapshot;
use proptest::prelude::*;
use serde_json::json;

use super::*;

const EXAMPLE: &str = include_str!("../../../tests/fixtures/config/example.yaml");
const BROKEN: &str = include_str!("../../../tests/fixtures/config/broken.txt");

/// A directory with one configuration file, which messages call `config.yaml`.
struct Home(tempfile::TempDir);

impl Home {
    fn with(file: impl AsRef<[u8]>) -> (Self, Sources) {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("config.yaml"), file).unwrap();
        let sources = Sources {
            cwd: dir.path().to_owned(),
            config_file: Some(dir.path().join("config.yaml")),
            ..Sources::default()
        };
        (Self(dir), sources)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn redact(&self, text: impl AsRef<str>) -> String {
        text.as_ref().replace(&format!("{}/", self.path().display()), "")
    }
}

fn read(file: impl AsRef<[u8]>) -> Result<LoadedConfig, ConfigError> {
    let (_home, sources) = Home::with(file);
    load(&sources)
}

fn report(home: &Home, sources: &Sources) -> String {
    let (outcome, errors, warnings) = match load(sources) {
        Ok(loaded) => ("accepted\n", String::new(), loaded.warnings),
        Err(error) => ("", format!("{error}\n"), error.warnings),
    };
    let warnings: String = warnings.iter().map(|warning| format!("warning: {warning}\n")).collect();
    home.redact(format!("{outcome}{errors}{warnings}"))
}

/// One row of the table: lines of a file, and lines `>env`, `>set` and `>flag`.
fn row(text: &str) -> String {
    let lines = text.lines().skip(1);
    let (given, file): (Vec<&str>, Vec<&str>) = lines.partition(|line| line.starts_with('>'));
    let (home, mut sources) = Home::with(file.join("\n"));
    sources.toolsets = ["delegation", "file", "terminal"].map(str::to_owned).into();
    sources.toolset_of = Some(|tool| (tool == "read_file").then(|| "file".to_owned()));
    for line in given {
        let (kind, rest) = line.split_once(' ').unwrap();
        let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
        match kind {
            ">env" => drop(sources.env.insert(key.to_owned(), value.to_owned())),
            ">set" => sources.set.push(rest.to_owned()),
            _ => sources.flags.push(FlagValue {
                flag: key.split_once(' ').unwrap().0.to_owned(),
                key: key.split_once(' ').unwrap().1.to_owned(),
                value: serde_json::from_str(value).unwrap(),
            }),
        }
    }
    report(&home, &sources)
}

#[test]
fn every_mistake_has_its_place_and_its_remedy() {
    let rows = BROKEN.split("=== ").skip(1);
    let actual: String = rows
        .map(|text| format!("=== {}\n{}\n", text.lines().next().unwrap_or_default(), row(text)))
        .collect();
    assert!(!actual.contains("hush"), "a secret was told");
    assert_snapshot!(actual);
}

#[test]
fn the_documented_example_is_accepted_and_has_no_surprise() {
    let loaded = read(EXAMPLE).unwrap();
    let expected = Config {
        model: "local/qwen3".into(),
        providers: loaded.config.providers.clone(),
        mcp_servers: loaded.config.mcp_servers.clone(),
        toolsets: ["file", "terminal", "web", "delegation"].map(str::to_owned).into(),
        ..Config::default()
    };
    assert_eq!(loaded.config, expected, "the example names defaults, but for these");
    assert_eq!(loaded.config.providers["local"].api, Some(Wire::OpenAiChat));
    let warnings: Vec<&str> = loaded.warnings.iter().map(|w| w.message.as_str()).collect();
    assert_eq!(warnings, Vec::<&str>::new());
}

#[test]
fn the_schema_and_the_check_accept_the_same_files() {
    let validator = jsonschema::validator_for(json_schema()).unwrap();
    assert!(validator.is_valid(&json!({})), "an empty file");
    for (file, valid) in [
        (json!({ "max_iterations": null, "delegation": null }), true),
        (json!({ "delegation": { "max_spawn_depth": -3 } }), true),
        (json!({ "max_iteration": 1 }), false),
        (json!({ "journal": { "sync": "sometimes" } }), false),
        (json!({ "plugins": [{ "path": null }] }), false),
    ] {
        assert_eq!(validator.is_valid(&file), valid, "{file}");
        assert_eq!(read(file.to_string()).is_ok(), valid, "{file}");
    }
}

/// Dotted paths of all keys; `x` stands for the names that are free.
fn all_keys(schema: &serde_json::Value, prefix: &str, keys: &mut Vec<String>) {
    let named = schema["properties"].as_object().into_iter().flatten();
    let free = schema.get("additionalProperties").filter(|rest| rest.is_object());
    for (key, below) in named.map(|(k, v)| (k.as_str(), v)).chain(free.map(|rest| ("x", rest))) {
        keys.push(format!("{prefix}{key}"));
        all_keys(below, &format!("{prefix}{key}."), keys);
    }
}

pub(super) fn any_key() -> impl Strategy<Value = String> {
    let mut keys = Vec::new();
    all_keys(json_schema(), "", &mut keys);
    proptest::sample::select(keys)
}

pub(super) fn any_value() -> impl Strategy<Value = serde_json::Value> {
    let words = ["", "x", "ask", "openai-chat", "http://127.0.0.1", "5", "true", "ü\u{202e}"];
    let numbers = [json!(1e300), json!(0.5), json!(1e19), json!(u64::MAX), json!(i64::MIN)];
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(|flag| json!(flag)),
        (-2i64..50).prop_map(|number| json!(number)),
        any::<i64>().prop_map(|number| json!(number)),
        proptest::sample::select(numbers.to_vec()),
        proptest::sample::select(words.to_vec()).prop_map(|word| json!(word)),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(|items| json!(items)),
            (proptest::sample::select(vec!["x", "path", "role", "usd", "include"]), inner)
                .prop_map(|(key, value)| json!({ key: value })),
        ]
    })
}

proptest! {
    /// Were the schema laxer than the types, the fallback of `load` would report it at `defaults`.
    #[test]
    fn what_the_schema_accepts_the_types_can_hold(key in any_key(), value in any_value()) {
        let flag = FlagValue { flag: "--flag".into(), key, value };
        let sources = Sources { flags: vec![flag], ..Sources::default() };
        if let Err(error) = load(&sources) {
            prop_assert!(!error.to_string().contains("defaults"), "{error}");
        }
    }

    #[test]
    fn any_bytes_give_a_configuration_or_mistakes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Err(error) = read(bytes) {
            prop_assert!(!error.problems.is_empty());
        }
    }

    #[test]
    fn anything_like_yaml_gives_a_configuration_or_mistakes(
        parts in proptest::collection::vec(
            proptest::sample::select(vec![
                "model", "delegation", "providers", "plugins", "budget", ": ", "\n", "\n  ", "- ", "[", "]",
                "{", "}", "&a ", "*a", "<<", "!!int ", "\"", "'", "|", "5", "~", "#", "---\n", ",", "? ",
            ]),
            0..30,
        ),
        sets in proptest::collection::vec("[a-z._]{0,12}=?.{0,12}", 0..3),
    ) {
        let (_home, mut sources) = Home::with(parts.concat());
        sources.env = sets.iter().map(|set| (format!("DEPUTIZE__{set}"), set.clone())).collect();
        sources.set = sets;
        for verb in [Verb::Check, Verb::Show { json: false }] {
            if let Err(error) = run(verb, &sources) {
                prop_assert!(!error.to_string().is_empty());
            }
        }
    }

    #[test]
    fn what_show_prints_reads_back_as_it_was(text in any::<String>(), key in "[a-zA-Z0-9-]{1,6}(_[a-zA-Z0-9-]{1,5})?") {
        let set = |key: String, value| FlagValue { flag: "--flag".into(), key, value };
        let sources = Sources {
            flags: vec![
                set("system_prompt".into(), json!(text)),
                set("toolsets".into(), json!([text, key])),
                set("prefill_messages".into(), json!([{ "role": "user", "content": text }])),
                set(format!("mcp_servers.{key}"), json!({ "command": "x", "args": [text] })),
            ],
            ..Sources::default()
        };
        let shown = run(Verb::Show { json: false }, &sources).unwrap().text;
        prop_assert_eq!(read(shown).unwrap().config, load(&sources).unwrap().config);
    }
}

#[test]
fn show_tells_the_origin_of_what_is_no_default_and_no_secret() {
    let (home, mut sources) = Home::with(
        "model: local/qwen3\nproviders:\n  local:\n    base_url: http://127.0.0.1:8080/v1\n    \
         headers: { Authorization: hush }\ndelegation: { api_key: hush, max_spawn_depth: 9 }\n\
         max_iterations: 5\nlimits: { read_lines: 7 }\nmcp_servers: { a: { command: x, env: { K: hush } } }\n",
    );
    sources.env.insert("DEPUTIZE__LIMITS__READ_BYTES".into(), "1000".into());
    sources.set = vec!["max_iterations=6".into(), "system_prompt=a: \"b\"\u{1b}".into()];
    sources.flags = vec![FlagValue {
        flag: "--toolsets".into(),
        key: "toolsets".into(),
        value: json!(["file", "no"]),
    }];
    let yaml = run(Verb::Show { json: false }, &sources).unwrap().text;
    let as_json = run(Verb::Show { json: true }, &sources).unwrap().text;
    for text in [&yaml, &as_json, &format!("{:?}", load(&sources).unwrap())] {
        assert!(!text.contains("hush"), "{text}");
    }
    assert_snapshot!("show_yaml", home.redact(yaml));
    assert_snapshot!("show_json", home.redact(as_json));
}

#[test]
fn later_layers_win_and_mappings_merge() {
    let (_home, mut sources) = Home::with(
        "max_iterations: 1\nsystem_prompt: file\ntoolsets: [a, b]\nlimits: { read_lines: 1, read_bytes: 1 }\n\
         reasoning_effort: low\n",
    );
    sources.env = BTreeMap::from([
        ("DEPUTIZE__MAX_ITERATIONS".into(), "2".into()),
        ("DEPUTIZE__SYSTEM_PROMPT".into(), "env".into()),
        ("DEPUTIZE__LIMITS__READ_LINES".into(), "2".into()),
        ("DEPUTIZE__TOOLSETS".into(), "[c]".into()),
        ("DEPUTIZE__REASONING_EFFORT".into(), "null".into()),
    ]);
    sources.set = vec!["max_iterations=3".into(), "max_iterations=4".into()];
    let config = load(&sources).unwrap().config;
    assert_eq!((config.max_iterations, config.system_prompt.as_str()), (4, "env"));
    assert_eq!((config.limits.read_lines, config.limits.read_bytes), (2, 1));
    assert_eq!(config.toolsets, ["c"]);
    assert_eq!(config.reasoning_effort, ReasoningEffort::Unset, "null takes back the file's");
    sources.set.push("limits={}".into());
    let limits = load(&sources).unwrap().config.limits;
    assert_eq!(limits, Config::default().limits, "an empty mapping takes back what others say");
    let flag = |value| FlagValue { flag: "-n".into(), key: "max_iterations".into(), value };
    sources.flags = vec![flag(json!(5))];
    assert_eq!(load(&sources).unwrap().config.max_iterations, 5);
}

#[test]
fn files_that_cannot_be_read_say_why() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("directory")).unwrap();
    fs::write(at("latin1"), b"model: offline\nsystem_prompt: \xc3\xbc gr\xfc\xdf\n").unwrap();
    fs::write(at("large"), "#".repeat(MAX_FILE_BYTES as usize + 1)).unwrap();
    fs::write(at("largest"), "#".repeat(MAX_FILE_BYTES as usize)).unwrap();
    fs::write(at("bom"), "\u{feff}max_iterations: 0\r\nmodel: offline\r\n").unwrap();
    let names = ["missing", "directory", "latin1", "large", "largest", "bom", "latin1/below"];
    let mut actual: String = names.map(|name| reported(&at(name), dir.path())).concat();
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(at("nowhere"), at("link")).unwrap();
        std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        actual += &["link", "socket"].map(|name| reported(&at(name), dir.path())).concat();
        actual += &reported(Path::new("/dev/zero"), dir.path());
    }
    assert_snapshot!(actual);
}

fn reported(path: &Path, dir: &Path) -> String {
    let sources = Sources { config_file: Some(path.to_owned()), ..Sources::default() };
    let actual = load(&sources).map_or_else(|error| error.to_string(), |_| "accepted".to_owned());
    format!("{}\n", actual.replace(&format!("{}/", dir.display()), ""))
}

#[test]
fn a_missing_default_file_is_no_mistake_and_the_project_has_no_say() {
    let home = tempfile::tempdir().unwrap();
    let project = home.path().join("project");
    fs::create_dir_all(project.join(".deputize")).unwrap();
    fs::write(project.join(".deputize/config.yaml"), "max_iterations: [").unwrap();
    let env = BTreeMap::from([("HOME".to_owned(), home.path().display().to_string())]);
    let sources = Sources { cwd: project, env, ..Sources::default() };
    let loaded = load(&sources).unwrap();
    assert_eq!(loaded.config, Config::default());
    let actual = loaded.warnings[0].to_string();
    assert_eq!(loaded.warnings.len(), 1);
    assert_snapshot!(actual.replace(&home.path().display().to_string(), "~"));
}

#[test]
fn the_file_is_in_the_home_that_the_environment_names() {
    let path = |env: &[(&str, &str)]| {
        let env = env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let sources = Sources { cwd: "/repo".into(), env, ..Sources::default() };
        run(Verb::Path, &sources).map_or_else(|error| error.to_string(), |output| output.text)
    };
    assert_eq!(path(&[("DEPUTIZE_HOME", "/d"), ("HOME", "/h")]), "/d/config.yaml\n");
    assert_eq!(path(&[("DEPUTIZE_HOME", "d")]), "/repo/d/config.yaml\n");
    assert!(path(&[]).starts_with("no directory for the configuration"));
    if cfg!(all(unix, not(target_os = "macos"))) {
        assert_eq!(path(&[("HOME", "/h")]), "/h/.config/deputize/config.yaml\n");
        let relative = [("HOME", "/h"), ("XDG_CONFIG_HOME", "x")];
        assert_eq!(path(&relative), "/h/.config/deputize/config.yaml\n");
        assert_eq!(path(&[("XDG_CONFIG_HOME", "/x")]), "/x/deputize/config.yaml\n");
    }
}

#[test]
fn what_starts_programs_is_not_read_from_the_environment() {
    let describe = |name: &str, value: &str| {
        let env = BTreeMap::from([(name.to_owned(), value.to_owned())]);
        let sources = Sources { cwd: "/repo".into(), env, ..Sources::default() };
        load(&sources).map_or_else(|error| error.to_string(), |_| "accepted".to_owned())
    };
    let refused = [
        ("DEPUTIZE__PLUGINS", "[{path: /p.so, sha256: 00}]", "plugins"),
        ("DEPUTIZE__MCP_SERVERS", "{x: {command: touch}}", "mcp_servers"),
        ("DEPUTIZE__MCP_SERVERS__X__URL", "http://127.0.0.1:1/mcp", "mcp_servers"),
        ("DEPUTIZE__HOOKS__PRETOOLUSE", "[touch x]", "hooks"),
        ("DEPUTIZE__DELEGATION__ACP_COMMAND", "touch", "delegation.acp_command"),
        ("DEPUTIZE__TERMINAL__DURABLE", "[touch]", "terminal.durable"),
    ];
    for (name, value, key) in refused {
        let actual = describe(name, value);
        let why = format!("`{key}` is not read from the environment");
        assert!(actual.contains(name) && actual.contains(&why), "{actual}");
    }
    assert_eq!(describe("DEPUTIZE__MCP_SERVERS", "{}"), "accepted");
    assert_eq!(describe("DEPUTIZE__DELEGATION__MODEL", "openai/x"), "accepted");
}

#[test]
fn a_durable_command_has_words() {
    let error = read("terminal: {durable: [make, ' ']}\n").unwrap_err().to_string();
    assert!(error.contains(":1:28"), "{error}");
    assert!(error.contains("`terminal.durable`: a command is empty; leave it out"), "{error}");
}

#[test]
fn a_thousand_mistakes_are_counted_and_not_all_reported() {
    let file: String = (0..1000).map(|n| format!("key{n}: 1\n")).collect();
    let error = read(file).unwrap_err();
    assert_eq!(error.problems.len(), 1000);
    assert_eq!(error.to_string().lines().count(), 101);
    assert!(error.to_string().ends_with("and 900 more"));
}

const PROVIDERS: &str = "
model: local/qwen/3
max_output_tokens: 100
providers:
  local: { base_url: http://127.0.0.1:8080/v1/, api_key_env: LOCAL_KEY, headers: { X-Team: a } }
  rotating: { base_url: https://models.example/v1, api_key_envs: [A, B], first_byte_timeout_seconds: 5 }
  openai: { connect_timeout_seconds: 3, max_output_tokens: 7 }
  openrouter: { base_url: https://proxy.example/v1 }
  deepseek: { base_url: https://api.deepseek.com/v1/ }
  claude: { base_url: https://api.anthropic.com/v1, api: anthropic-messages }
";

/// The overrides are `-m`, `--base-url` and `--api-key-env`; empty ones are absent.
fn resolved(config: &str, [model, base_url, api_key_env]: [&str; 3]) -> String {
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let overrides = ModelOverrides {
        model: given(model),
        base_url: given(base_url),
        api_key_env: given(api_key_env),
    };
    let choice = resolve_model(&read(config).unwrap().config, &overrides);
    let actual = match choice {
        Err(error) => error.to_string(),
        Ok(ModelChoice { provider, model, endpoint: Endpoint::Offline, .. }) => {
            format!("{provider} {model}: offline")
        }
        Ok(ModelChoice {
            provider,
            model,
            endpoint: Endpoint::Http(http),
            max_output_tokens,
            ..
        }) => {
            format!(
                "{provider} {model}: {} {} keys {:?} headers {} times {:?} {:?} {:?} output {max_output_tokens:?}",
                http.api.name(),
                http.base_url,
                http.keys.variables(),
                http.headers.len(),
                http.timeouts.connect,
                http.timeouts.first_byte,
                http.timeouts.idle,
            )
        }
    };
    format!("{model} {base_url} {api_key_env}\n  {}\n", actual.replace('\n', "\n  "))
}

#[test]
fn a_key_goes_only_where_it_was_meant_to_go() {
    let rows = [
        ["", "", ""],
        ["", "http://127.0.0.1:8080/v1", ""],
        ["", "http://elsewhere.example/v1", ""],
        ["", "http://elsewhere.example/v1", "OTHER_KEY"],
        ["rotating/x", "", ""],
        ["openai/gpt", "", ""],
        ["openai/gpt", "https://api.openai.com/v1/", ""],
        ["openai/gpt", "https://api.openai.com.example/v1", ""],
        ["openai/gpt", "http://localhost:1", "K"],
        ["openai/gpt", "", "K"],
        ["openrouter/a/b", "", ""],
        ["anthropic/x", "", ""],
        ["anthropic/x", "http://elsewhere.example/v1", ""],
        ["claude/x", "", ""],
        ["deepseek/chat", "", ""],
        ["ollama/llama", "", ""],
        ["offline", "", ""],
    ];
    assert_snapshot!(rows.map(|row| resolved(PROVIDERS, row)).concat());
}

#[test]
fn what_an_entry_says_of_its_requests_reaches_the_endpoint() {
    let file = "
providers:
  a:
    base_url: https://a.example/v1
    key_header: api-key
    extra_body: { top_k: 5, options: { deep: [1, no] } }
    omit_body: [stream_options]
    streaming: false
    echo_reasoning: true
    ca_file: ~/ca.pem
    proxy: http://proxy.example:3128/
";
    let config = read(file).unwrap().config;
    let resolve = |base_url: Option<&str>| {
        let model = Some("a/m".to_owned());
        let base_url = base_url.map(str::to_owned);
        let overrides = ModelOverrides { model, base_url, api_key_env: None };
        match resolve_model(&config, &overrides).unwrap().endpoint {
            Endpoint::Http(at) => *at,
            Endpoint::Offline => panic!("it is not offline"),
        }
    };
    let own = resolve(None);
    let extra = json!({"top_k": 5, "options": {"deep": [1, "no"]}, "stream_options": null});
    assert_eq!(json!(own.body.extra), extra);
    assert_eq!(own.key_header, Some(deputize_providers::KeyHeader::Named("api-key".into())));
    assert_eq!(own.proxy, deputize_providers::Proxy::At("http://proxy.example:3128".into()));
    assert_eq!((own.body.streaming, own.ca_file.as_deref()), (false, Some("~/ca.pem")));
    assert_eq!(own.body.echo_reasoning, Some(true));
    assert_eq!(own.timeouts.first_byte.as_secs(), 600, "the first byte is the last");

    let other = resolve(Some("https://b.example/v1"));
    assert_eq!(
        json!(other.body.extra),
        json!({"stream_options": null}),
        "what is meant for another"
    );
    assert_eq!(other.proxy, own.proxy);
}

#[test]
fn a_model_that_cannot_be_used_says_what_to_do() {
    let rows = [
        ["qwen3", "", ""],
        ["opnai/x", "", ""],
        ["Qwen/Qwen3", "http://127.0.0.1:1/v1", ""],
        ["openai/x", "127.0.0.1:1/v1", ""],
        ["openai/x", "http://me:hush@127.0.0.1/v1", ""],
        ["openai/x", "http://127.0.0.1/v1?k=hush", ""],
        ["openai/x", "http://", ""],
        ["openai/x", "", "sk-hush"],
        ["offline", "http://127.0.0.1/v1", ""],
        ["offline", "", "K"],
        ["\u{1b}[2J/x", "", ""],
    ];
    let actual = rows.map(|row| resolved(PROVIDERS, row).lines().skip(1).collect::<String>());
    let actual = [actual.join("\n"), resolved("{}", ["", "", ""])].join("\n");
    assert!(!actual.contains("hush"));
    assert_snapshot!(actual);
}

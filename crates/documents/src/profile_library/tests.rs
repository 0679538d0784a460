use std::os::unix::fs::symlink;

use deputize_core::agent::Role;
use deputize_core::protected_path::instruction_file;
use proptest::prelude::*;

use super::*;

const BUNDLED: &str = "---\nname: look\ndescription: Looks.\n---\nLook.\n";
const ALIASES: ToolAliases = ToolAliases {
    names: &[("Edit", &["edit_file"]), ("Read", &["read_file"]), ("Shell", &["terminal"])],
    denials: &[("Edit", &["edit_file", "patch"]), ("Note", &["patch"])],
    has_servers: true,
};

struct ProfilePlaces {
    dir: tempfile::TempDir,
}

impl ProfilePlaces {
    fn new() -> Self {
        let places = Self { dir: tempfile::tempdir().unwrap() };
        fs::create_dir_all(places.path("project/sub")).unwrap();
        places
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    fn put(&self, name: &str, text: &str) -> &Self {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn library(&self) -> ProfileLibrary {
        ProfileLibrary::default()
            .with_bundled(BUNDLED)
            .with_user(self.path("user"))
            .with_project(&self.path("project/sub"), &self.path("project"))
            .with_aliases(ALIASES)
    }

    /// All profiles, notes and faults, a line each.
    fn show(&self) -> String {
        let ProfileListing { profiles, faults, .. } = self.library().list();
        let mut out = String::new();
        for ProfileDocument { profile, origin, notes, .. } in profiles {
            out += &format!("{} {} {}\n", origin.as_str(), profile.name, profile.description);
            notes.iter().for_each(|note| out += &format!("  {note}\n"));
        }
        let base = self.path("").display().to_string();
        faults.iter().for_each(|fault| out += &format!("{fault}\n").replace(&base, ""));
        out
    }
}

fn parse(front: &str) -> Result<ProfileDocument, DocumentError> {
    let text = format!("---\n{front}\n---\nDo it.\n");
    ProfileDocument::parse("stem", &text, DocumentOrigin::User, ALIASES)
}

/// The bound on tools, the role and the notes of a profile with these fields.
fn bound(front: &str) -> String {
    let ProfileDocument { profile, notes, .. } =
        parse(&format!("description: d\n{front}")).unwrap();
    let names = |names: Vec<&str>| format!("[{}]", names.join(" "));
    let only = profile.tools.only.as_ref();
    let only = only.map(|only| names(only.iter().map(|name| name.as_str()).collect()));
    let sets = profile.tools.toolsets.as_ref();
    let sets = sets.map(|sets| names(sets.iter().map(|name| name.as_str()).collect()));
    let without = profile.tools.without.iter().map(|name| name.as_str());
    let without_sets = profile.tools.without_toolsets.iter().map(|name| name.as_str());
    let without = names(without.chain(without_sets).collect());
    let role = profile.role.map_or("any", Role::as_str);
    let any = || "any".to_owned();
    format!(
        "sets {} tools {} without {without} role {role} {}",
        sets.unwrap_or_else(any),
        only.unwrap_or_else(any),
        notes.join("; ")
    )
}

#[test]
fn every_field_is_read() {
    let document = parse(
        "name: count\ndescription: Counts.\ntoolsets: [file_read, web]\nmodel: p/m\n\
         reasoning_effort: low\nmax_iterations: 7\nrole: orchestrator\n\
         output_schema: {type: object, properties: {n: {type: integer}}}",
    )
    .unwrap();
    assert_eq!(document.notes, Vec::<String>::new());
    insta::assert_json_snapshot!(document.profile, @r#"
    {
      "name": "count",
      "description": "Counts.",
      "instructions": "Do it.",
      "tools": {
        "toolsets": [
          "file_read",
          "web"
        ],
        "only": null,
        "without": [],
        "without_toolsets": []
      },
      "model": "p/m",
      "reasoning_effort": "low",
      "max_iterations": 7,
      "role": "orchestrator",
      "output_schema": {
        "type": "object",
        "properties": {
          "n": {
            "type": "integer"
          }
        }
      },
      "from_project": false
    }
    "#);
}

#[test]
fn a_profile_without_a_file_stands_before_a_bundled_one() {
    let profile = parse("name: look\ndescription: Looks twice.").unwrap().profile;
    let library = ProfileLibrary::default().with_bundled(BUNDLED).with_profile(profile);
    let found = library.find("look").unwrap();
    assert_eq!((found.profile.description.as_str(), found.path), ("Looks twice.", None));
    assert_eq!(found.origin, DocumentOrigin::User);
}

#[test]
fn names_of_other_programs_are_mapped_and_never_allow_more() {
    let fronts = [
        "model: inherit",
        "tools: Read, Edit",
        "tools: [Read, NotebookEdit, 'Shell(git:*)', mcp__docs__find, mcp__docs]",
        "tools: Nothing",
        "tools: '*'",
        "tools: read_file, Task",
        "tools: []",
        "disallowedTools: Edit, Shell(rm:*), Task",
        "disallowedTools: [Note, memory, Nothing, mcp__docs, mcp__hub__*, mcp__git__push]",
        "tools: Read\ntoolsets: [file, 'no name']",
        "maxTurns: 3\neffort: max\nmodel: opus\ncolor: red\nhooks: {a: 1}",
    ];
    let shown = fronts.map(|front| format!("{}\n  {}", front.replace('\n', " / "), bound(front)));
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn what_is_no_profile_says_why() {
    let long = format!("description: {}", "x".repeat(1025));
    let shown = [
        "name: a",
        "description: d\nname: A b",
        "description: d\nrole: boss",
        "description: d\nmax_iterations: 0",
        "description: d\ntoolsets: {a: 1}",
        "description: d\noutput_schema: text",
        "description: d\noutput_schema: {$ref: 'https://elsewhere'}",
        "description: d\ndisallowedTools: '*'",
        "description: d\ndisallowedTools: [Edit, mcp__*]",
        "description: d\ndisallowedTools: mcp__docs__get_*",
        &long,
    ]
    .map(|front| parse(front).unwrap_err().to_string());
    insta::assert_snapshot!(shown.join("\n"), @"
    it has no `description`: say what the agent is for
    `A b` is not the name of a profile: it has 1 to 64 lower-case letters, digits and single hyphens inside
    `role` must be `leaf` or `orchestrator`
    `max_iterations` must be a whole number from 1
    `toolsets` must be a list of words
    `output_schema` must be a JSON Schema
    `output_schema`: a schema must hold what it refers to: `https://elsewhere` is not in it; put that under `$defs`
    `disallowedTools`: no tool here is meant by `*`: name tools, or `mcp__SERVER` for all tools of a server
    `disallowedTools`: no tool here is meant by `mcp__*`: name tools, or `mcp__SERVER` for all tools of a server
    `disallowedTools`: no tool here is meant by `mcp__docs__get_*`: name tools, or `mcp__SERVER` for all tools of a server
    its `description` has 1025 characters, and 1024 is the most
    ");
}

#[test]
fn a_persons_profile_replaces_a_bundled_one_and_a_projects_replaces_none() {
    let places = ProfilePlaces::new();
    assert_eq!(places.show(), "bundled look Looks.\n");
    let profile = |name: &str, text: &str| format!("---\nname: {name}\ndescription: {text}\n---\n");
    places
        .put("user/mine.md", &profile("look", "Mine."))
        .put("user/notes.txt", "no profile")
        .put("user/broken.md", "# Title\n")
        .put("project/.claude/agents/a.md", &profile("look", "Theirs."))
        .put("project/.claude/agents/b.md", "---\ndescription: B.\ncolor: red\n---\n")
        .put("project/sub/.deputize/agents/c.md", "---\ndescription: C.\n---\n")
        .put("other/d.md", "---\ndescription: D.\n---\n");
    symlink(places.path("other/d.md"), places.path("project/.claude/agents/d.md")).unwrap();
    insta::assert_snapshot!(places.show(), @"
    project b B.
      fields that are not known are ignored: `color`
    project c C.
    user look Mine.
    user/broken.md: it does not begin with front matter: `---`, fields, `---`
    project/.claude/agents/a.md: there is a user profile `look` already, which is used: rename one of them
    project/.claude/agents/d.md: it is a link that leaves the project
    ");
    let from_project = |name| places.library().find(name).unwrap().profile.from_project;
    assert_eq!((from_project("b"), from_project("look")), (true, false));
    let unknown = places.library().find("e").unwrap_err().to_string();
    assert_eq!(unknown, "there is no profile `e`; known: b, c, look");
}

/// As people write them for the other program, which takes more.
#[test]
fn files_of_another_program_are_read_leniently_and_ours_are_not() {
    let places = ProfilePlaces::new();
    let loose = "---\nname: loose\ndescription: Use it. Context: \"a\" user: \"b\"\n\
                 tools: Read, Edit\ndisallowedTools:\n  - Edit\n---\nDo it.\n";
    let long = format!("---\ndescription: {}\n---\n", "x".repeat(1025));
    places
        .put("project/.claude/agents/loose.md", loose)
        .put("project/.claude/agents/long.md", &long)
        .put("project/.deputize/agents/own-loose.md", &loose.replace("name: loose\n", ""))
        .put("project/.deputize/agents/own-long.md", &long)
        .put("user/.claude/agents/x.md", loose);
    let shown = places.show().replace(&"x".repeat(1024), "XXX");
    insta::assert_snapshot!(shown, @r#"
    project long XXX
      its `description` has 1025 characters and is cut to 1024
    bundled look Looks.
    project loose Use it. Context: "a" user: "b"
      line 3: not valid YAML: mapping values are not allowed in this context; put a text with `: ` in it between quotes: its fields are read line by line
    project/.deputize/agents/own-long.md: its `description` has 1025 characters, and 1024 is the most
    project/.deputize/agents/own-loose.md: line 2: not valid YAML: mapping values are not allowed in this context; put a text with `: ` in it between quotes
    "#);
    let loose = places.library().find("loose").unwrap().profile;
    let without: Vec<&str> = loose.tools.without.iter().map(|tool| tool.as_str()).collect();
    assert_eq!((without, loose.instructions.as_str()), (vec!["edit_file", "patch"], "Do it."));
}

#[test]
fn a_faulty_file_gives_way_to_no_other() {
    let places = ProfilePlaces::new();
    let good = "---\ndescription: G.\n---\n";
    places
        .put("user/mine.md", "---\nname: 'look' # around\nrole: boss\ndescription: d\n---\n")
        .put("user/empty.md", "")
        .put("user/yaml.md", "---\nname: tidy\ntools: [\n---\nname: other\n")
        .put("user/good.md", good)
        .put("project/.claude/agents/empty.md", good)
        .put("project/.claude/agents/good.md", "")
        .put("project/.claude/agents/look.md", good)
        .put("other/gone.md", good);
    symlink(places.path("other/gone.md"), places.path("project/.claude/agents/gone.md")).unwrap();
    let latin = b"---\nname: cafe\ndescription: Caf\xe9.\n---\n";
    fs::write(places.path("user/latin.md"), latin).unwrap();
    let base = places.path("").display().to_string();
    let find = |name: &str| match places.library().find(name) {
        Ok(document) => document.profile.description,
        Err(error) => error.to_string().replace(&base, ""),
    };
    let shown = ["look", "empty", "tidy", "good", "gone", "cafe", "mine", "other"].map(find);
    insta::assert_snapshot!(shown.join("\n"), @"
    the profile `look` cannot be used: user/mine.md: `role` must be `leaf` or `orchestrator`; correct the file, or remove it
    the profile `empty` cannot be used: user/empty.md: it does not begin with front matter: `---`, fields, `---`; correct the file, or remove it
    the profile `tidy` cannot be used: user/yaml.md: line 3: not valid YAML: unclosed bracket '['; correct the file, or remove it
    G.
    the profile `gone` cannot be used: project/.claude/agents/gone.md: it is a link that leaves the project; correct the file, or remove it
    the profile `cafe` cannot be used: user/latin.md: line 3 is not UTF-8 text; correct the file, or remove it
    there is no profile `mine`; known: good
    there is no profile `other`; known: good
    ");
    insta::assert_snapshot!(places.show(), @"
    user good G.
    user/empty.md: it does not begin with front matter: `---`, fields, `---`
    user/latin.md: line 3 is not UTF-8 text
    user/mine.md: `role` must be `leaf` or `orchestrator`
    user/yaml.md: line 3: not valid YAML: unclosed bracket '['
    project/.claude/agents/empty.md: `user/empty.md` is the profile `empty` and is faulty: correct it, or rename one of them
    project/.claude/agents/gone.md: it is a link that leaves the project
    project/.claude/agents/good.md: it does not begin with front matter: `---`, fields, `---`
    project/.claude/agents/look.md: `user/mine.md` is the profile `look` and is faulty: correct it, or rename one of them
    ");
}

#[test]
fn a_folder_has_an_end_and_a_new_file_replaces_none() {
    let places = ProfilePlaces::new();
    for number in 0..=MOST_PROFILES {
        places.put(&format!("user/p{number:03}.md"), "---\ndescription: d\n---\n");
    }
    let listing = places.library().list();
    assert_eq!(listing.profiles.len(), MOST_PROFILES + 1, "with the bundled one");
    assert!(listing.faults[0].reason.starts_with("this profile and 0 after it are left out"));
    let library = places.library();
    let left_out = library.find(&format!("p{MOST_PROFILES:03}")).unwrap_err().to_string();
    assert!(left_out.contains("this profile and 0 after it are left out"), "{left_out}");
    let text = "---\ndescription: d\n---\nDo it.\n";
    let error = |name, text| library.create(name, text).unwrap_err().to_string();
    assert!(error("p000", text).starts_with("there is a file for the profile `p000` already"));
    assert!(error("../x", text).starts_with("`../x` is not the name of a profile"));
    let other = text.replace("description", "name: y\ndescription");
    assert_eq!(error("x", &other), "its `name` is `y`, and it was to be `x`");
    let path = library.create("x", text).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn folders_of_project_profiles_are_written_after_a_yes_alone() {
    for folder in PROJECT_FOLDERS {
        let file = Path::new("/w").join(folder).join("x");
        assert_eq!(instruction_file(&file), Some(folder));
    }
}

proptest! {
    #[test]
    fn any_tools_field_allows_only_tools_that_it_stands_for(names in proptest::collection::vec("[A-Za-z_()*: ]{0,12}|Read|Edit|Shell|Task", 0..6)) {
        let front = serde_json::json!({"description": "d", "tools": names}).to_string();
        let parsed = parse(&front);
        prop_assume!(parsed.is_ok() && !names.iter().any(|name| name.trim() == "*"));
        let only = parsed.unwrap().profile.tools.only.unwrap();
        let stands_for = |tool: &str| names.iter().any(|name| {
            let name = name.trim();
            name == tool || ALIASES.names.iter().any(|(alias, tools)| *alias == name && tools.contains(&tool))
        });
        for tool in only {
            prop_assert!(stands_for(tool.as_str()), "{tool}");
        }
    }
}

use std::os::unix::fs::symlink;

use deputize_core::protected_path::instruction_file;

use super::*;

const BUNDLED: &str = "---\nname: split\ndescription: Splits work.\n---\nSplit it.\n";

fn skill(name: &str) -> String {
    format!("---\nname: {name}\ndescription: Does {name}.\n---\n\nDo {name}.\n")
}

struct Places {
    dir: tempfile::TempDir,
}

impl Places {
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

    fn library(&self) -> SkillLibrary {
        SkillLibrary::default()
            .with_bundled("split", BUNDLED)
            .with_user(self.path("user"))
            .with_project(&self.path("project/sub"), &self.path("project"))
    }

    /// All skills and faults, a line each.
    fn shown(&self) -> String {
        let SkillListing { skills, faults, .. } = self.library().list();
        let base = format!("{}/", self.path("").display()).replace("//", "/");
        let skills = skills.iter().map(|skill| {
            format!("{} {}: {}", skill.origin.as_str(), skill.name, skill.description)
        });
        let faults = faults.iter().map(|fault| fault.to_string().replace(&base, ""));
        skills.chain(faults).collect::<Vec<_>>().join("\n")
    }
}

#[test]
fn skills_of_the_person_the_program_and_the_project() {
    let places = Places::new();
    assert_eq!(places.shown(), "bundled split: Splits work.");
    places
        .put("user/release/SKILL.md", &skill("release"))
        .put("user/split/SKILL.md", &skill("split"))
        .put("project/.claude/skills/test-it/SKILL.md", &skill("test-it"))
        .put("project/sub/.agents/skills/near/SKILL.md", &skill("near"))
        .put("project/.deputize/skills/release/SKILL.md", &skill("release"))
        .put("project/.agents/skills/split/SKILL.md", &skill("split"));
    insta::assert_snapshot!(places.shown(), @r"
    project near: Does near.
    user release: Does release.
    user split: Does split.
    project test-it: Does test-it.
    project/.deputize/skills/release/SKILL.md: there is a user skill of this name, which is used: rename one of them
    project/.agents/skills/split/SKILL.md: there is a user skill of this name, which is used: rename one of them
    ");
}

#[test]
fn what_is_broken_is_named_and_the_rest_is_there() {
    let places = Places::new();
    places
        .put("user/good/SKILL.md", &skill("good"))
        .put("user/other/SKILL.md", &skill("another"))
        .put("user/Upper/SKILL.md", &skill("Upper"))
        .put("user/a--b/SKILL.md", &skill("a--b"))
        .put("user/bare/SKILL.md", "# No front matter\n")
        .put("user/silent/SKILL.md", "---\nname: silent\n---\n")
        .put("user/colon/SKILL.md", "---\nname: colon\ndescription: Use when: x\n---\n")
        .put("user/empty/notes.md", "x")
        .put("user/long/SKILL.md", &skill("long").replace("Does", &"x".repeat(1024)))
        .put("user/large/SKILL.md", &format!("{}{}", skill("large"), "x".repeat(70_000)))
        .put("outside/SKILL.md", &skill("leak"))
        .put("user/.hidden/SKILL.md", &skill("hidden"))
        .put("user/file.md", "x");
    fs::create_dir_all(places.path("project/.agents/skills")).unwrap();
    symlink(places.path("outside"), places.path("project/.agents/skills/leak")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, places.path("user/file"), 0o600.into()).unwrap();
    insta::assert_snapshot!(places.shown(), @r"
    user good: Does good.
    bundled split: Splits work.
    user/Upper/SKILL.md: `Upper` is not the name of a skill: it has 1 to 64 lower-case letters, digits and single hyphens inside
    user/a--b/SKILL.md: `a--b` is not the name of a skill: it has 1 to 64 lower-case letters, digits and single hyphens inside
    user/bare/SKILL.md: it does not begin with front matter: `---`, fields, `---`
    user/colon/SKILL.md: line 3: not valid YAML: mapping values are not allowed in this context; put a text with `: ` in it between quotes
    user/empty/SKILL.md: the folder has no such file
    user/large/SKILL.md: it has 70056 bytes, more than 65536
    user/long/SKILL.md: its `description` has 1030 characters, and 1024 is the most
    user/other/SKILL.md: its `name` is `another` and its folder is `other`: they must be the same
    user/silent/SKILL.md: it has no `description`: say what it is for and when to use it
    project/.agents/skills/leak/SKILL.md: it is a link that leaves the project
    ");
}

#[test]
fn a_faulty_skill_gives_way_to_no_other() {
    let places = Places::new();
    places
        .put("user/split/SKILL.md", "# Mine\n")
        .put("user/release/notes.md", "x")
        .put("project/.agents/skills/near/SKILL.md", &skill("near"))
        .put("project/.agents/skills/release/SKILL.md", &skill("release"))
        .put("project/sub/.agents/skills/near/SKILL.md", "");
    insta::assert_snapshot!(places.shown(), @"
    user/release/SKILL.md: the folder has no such file
    user/split/SKILL.md: it does not begin with front matter: `---`, fields, `---`
    project/sub/.agents/skills/near/SKILL.md: it does not begin with front matter: `---`, fields, `---`
    project/.agents/skills/near/SKILL.md: `project/sub/.agents/skills/near/SKILL.md` is the skill `near` and is faulty: correct it, or rename one of them
    project/.agents/skills/release/SKILL.md: `user/release/SKILL.md` is the skill `release` and is faulty: correct it, or rename one of them
    ");
    let base = format!("{}/", places.path("").display()).replace("//", "/");
    let find = |name: &str| {
        let error = places.library().find(name).unwrap_err();
        let SkillError::Faulty { origin, .. } = &error else { panic!("{error}") };
        format!("{}: {error}", origin.as_str()).replace(&base, "")
    };
    insta::assert_snapshot!(["split", "release", "near"].map(find).join("\n"), @"
    user: the skill `split` cannot be used: user/split/SKILL.md: it does not begin with front matter: `---`, fields, `---`
    user: the skill `release` cannot be used: user/release/SKILL.md: the folder has no such file
    project: the skill `near` cannot be used: project/sub/.agents/skills/near/SKILL.md: it does not begin with front matter: `---`, fields, `---`
    ");
}

#[test]
fn a_skill_is_read_with_its_files_and_nothing_outside_of_its_folder() {
    let places = Places::new();
    places
        .put("user/release/SKILL.md", &skill("release"))
        .put("user/release/scripts/tag.sh", "git tag\n")
        .put("user/release/notes.md", "Notes.\n")
        .put("user/release/image.png", "x")
        .put("user/secret", "s");
    fs::write(places.path("user/release/image.png"), [0xff, 0xfe, 0]).unwrap();
    symlink("../secret", places.path("user/release/link")).unwrap();
    symlink("notes.md", places.path("user/release/inside")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, places.path("user/release/pipe"), 0o600.into()).unwrap();
    let library = places.library();
    let read = library.read("release", None).unwrap();
    assert_eq!(read.text, "Do release.\n");
    assert_eq!(
        (read.files.join(" ").as_str(), read.more_files),
        ("image.png inside link notes.md pipe scripts/tag.sh", 0)
    );
    let text = |file: &str| match library.read("release", Some(file)) {
        Ok(read) => read.text,
        Err(error) => error.to_string(),
    };
    assert_eq!(text("scripts/tag.sh"), "git tag\n");
    assert_eq!(text("inside"), "Notes.\n");
    assert_eq!(text("SKILL.md"), "Do release.\n");
    for file in ["../secret", "link", "/etc/passwd", "scripts/../../secret"] {
        let error = text(file);
        assert!(error.contains("cannot be read") && !error.contains("\ns"), "{file}: {error}");
        assert_ne!(error, "s", "{file}");
    }
    assert!(text("pipe").ends_with("it is not a regular file"), "{}", text("pipe"));
    assert!(text("image.png").ends_with("it is not text in UTF-8"));
    places.put("user/release/notes.md", &"x".repeat(262_145));
    assert!(text("notes.md").ends_with("it has 262145 bytes, more than 262144"));
    let error = library.read("relase", None).unwrap_err().to_string();
    assert_eq!(error, "there is no skill `relase`; known: release, split");
    assert_eq!(library.read("split", None).unwrap().text, "Split it.\n");
    assert!(library.read("split", Some("x")).is_err());
}

#[test]
fn only_skills_of_the_person_are_written_whole_or_not_at_all() {
    let places = Places::new();
    places.put("project/.agents/skills/theirs/SKILL.md", &skill("theirs"));
    let library = places.library();
    let error = |result: Result<PathBuf, SkillError>| result.unwrap_err().to_string();
    let path = library.create("mine", &skill("mine")).unwrap();
    assert_eq!(path, places.path("user/mine/SKILL.md"));
    insta::assert_snapshot!(
        [
            error(library.create("mine", &skill("mine"))),
            error(library.create("../x", &skill("../x"))),
            error(library.create("other", &skill("mine"))),
            error(library.create("large", &format!("{}{}", skill("large"), "x".repeat(65_536)))),
            error(library.replace("mine", "no front matter")),
            error(library.replace("theirs", &skill("theirs"))),
            error(library.remove("split")),
            error(library.remove("..")),
            error(SkillLibrary::default().create("x", &skill("x"))),
        ]
        .join("\n"),
        @r"
        there is a skill `mine` already: edit it, or choose another name
        `../x` is not the name of a skill: it has 1 to 64 lower-case letters, digits and single hyphens inside
        its `name` is `mine` and its folder is `other`: they must be the same
        the text has 65592 bytes, and 65536 is the most: put parts into files beside it
        it does not begin with front matter: `---`, fields, `---`
        `theirs` is a project skill and is not changed here; a skill of the person may take its place
        `split` is a bundled skill and is not changed here; a skill of the person may take its place
        there is no skill `..`; known: mine, split, theirs
        there is no folder for skills of the person
        "
    );
    let fits = library.check_skill("new", &skill("new")).unwrap();
    assert_eq!(fits, places.path("user/new"));
    assert!(error(library.check_skill("New", "no front matter")).starts_with("`New` is not"));
    assert_eq!(fs::read_to_string(&path).unwrap(), skill("mine"));
    assert_eq!(fs::read_dir(places.path("user")).unwrap().count(), 1, "nothing is left behind");
    let edited = skill("mine").replace("Do mine", "Do it well");
    library.replace("mine", &edited).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), edited);
    assert_eq!(fs::read_dir(places.path("user/mine")).unwrap().count(), 1);
    library.remove("mine").unwrap();
    assert_eq!(fs::read_dir(places.path("user")).unwrap().count(), 0);
}

#[test]
fn a_skill_that_its_author_keeps_for_people_says_so() {
    let places = Places::new();
    let text = skill("mine").replace("\n---\n\n", "\ndisable-model-invocation: true\n---\n\n");
    places.put("user/mine/SKILL.md", &text);
    assert!(!places.library().find("mine").unwrap().for_models);
    assert!(places.library().find("split").unwrap().for_models);
}

#[test]
fn folders_of_project_skills_are_written_after_a_yes_alone() {
    for folder in PROJECT_FOLDERS {
        let file = Path::new("/w").join(folder).join("x");
        assert_eq!(instruction_file(&file), Some(folder));
    }
}

#[test]
fn a_skill_that_is_no_text_is_faulty_and_keeps_its_name() {
    let places = Places::new();
    places.put("user/split/SKILL.md", "");
    let file = places.path("user/split/SKILL.md");
    fs::write(file, [skill("split").as_bytes(), b"Caf\xe9\n"].concat()).unwrap();
    assert_eq!(places.shown(), "user/split/SKILL.md: line 7 is not UTF-8 text");
    let told = places.library().read("split", None).unwrap_err().to_string();
    assert!(told.ends_with("/user/split/SKILL.md: line 7 is not UTF-8 text"), "{told}");
}

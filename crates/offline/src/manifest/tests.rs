use super::*;

#[test]
fn cargo_members_take_what_their_workspace_says() {
    let workspace = "[workspace]\nmembers = [\"a\"]\n[workspace.package]\nversion = \"1.2.3\"\nlicense = \"MIT\"\n\
                     [workspace.dependencies]\nserde = { version = \"1.0\" }\n";
    let member = "[package]\nname = \"a\"\nversion.workspace = true\nlicense.workspace = true\n\
                  description = \"\"\"\nFlies\nkites.\"\"\"\n[dependencies]\nserde.workspace = true\nlog = { version = \"0.4\", optional = true }\n\
                  [target.'cfg(unix)'.dependencies]\nlibc = \"0.2\"\n[dev-dependencies]\ninsta = \"1\"\n[[bin]]\nname = \"fly\"\n";
    let mut packages =
        vec![read("Cargo.toml", workspace).unwrap(), read("a/Cargo.toml", member).unwrap()];
    inherit(&mut packages, None);
    let a = packages.pop().unwrap();
    assert_eq!((a.version.as_str(), a.licence.as_str()), ("1.2.3", "MIT"));
    assert_eq!(a.about, "Flies kites.");
    let names: Vec<_> =
        a.needs.dependencies.iter().map(|d| format!("{} {}", d.name, d.version)).collect();
    assert_eq!(names, ["libc 0.2", "serde 1.0"]);
    let conditions: Vec<&str> = a.needs.dependencies.iter().map(|d| d.condition.as_str()).collect();
    assert_eq!(conditions, ["on Unix", ""]);
    assert_eq!(
        (a.needs.optional.len(), a.needs.development.len(), a.targets.programs.len()),
        (1, 1, 1)
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "one case for each kind of manifest")]
fn each_kind_of_manifest_is_read() {
    for (path, text, name, version, licence, dependencies) in [
        (
            "package.json",
            r#"{"name": "kite", "version": "1.0.0", "license": "ISC", "dependencies": {"a": "^1"}, "devDependencies": {"b": "2"}}"#,
            "kite",
            "1.0.0",
            "ISC",
            1,
        ),
        (
            "pyproject.toml",
            "[project]\nname = 'kite'\nversion = '2.0'\nlicense = {text = 'MIT'}\ndependencies = ['a>=1; python_version<\"3\"', 'b[x]']\n",
            "kite",
            "2.0",
            "MIT",
            2,
        ),
        (
            "setup.cfg",
            "[metadata]\nname = kite\nversion = 3\nlicense = BSD\n[options]\ninstall_requires =\n    a\n    b>=2\n    c\n",
            "kite",
            "3",
            "BSD",
            3,
        ),
        (
            "setup.py",
            "from setuptools import setup\n# setup(name='no')\nsetup(name='kite', version='4', license='MIT', install_requires=['a'])\n",
            "kite",
            "4",
            "MIT",
            1,
        ),
        (
            "go.mod",
            "module example.org/kite\n\ngo 1.22\n\nrequire (\n\ta.org/x v1.0.0\n\tb.org/y v2 // indirect\n)\n",
            "example.org/kite",
            "",
            "",
            1,
        ),
        (
            "pom.xml",
            "<project><!-- <version>0</version> --><parent><version>9</version></parent><artifactId>kite</artifactId><version>5</version>\
             <licenses><license><name>Apache-2.0</name></license></licenses><dependencies><dependency><artifactId>a</artifactId></dependency>\
             <dependency><artifactId>b</artifactId><scope>test</scope></dependency></dependencies></project>",
            "kite",
            "5",
            "Apache-2.0",
            1,
        ),
        (
            "CMakeLists.txt",
            "# project(no)\nproject(kite VERSION 6.1 LANGUAGES C)\nenable_testing()\n",
            "kite",
            "6.1",
            "",
            0,
        ),
        (
            "meson.build",
            "project('kite', 'c',\n  version : '7.0', license : 'MIT')\n\n",
            "kite",
            "7.0",
            "MIT",
            0,
        ),
        ("configure.ac", "AC_INIT([kite], [8.0], [mail])\n", "kite", "8.0", "", 0),
        (
            "configure.ac",
            "m4_define([KITE_MAJOR], 8)\nm4_define([KITE_MINOR], [1])\nAC_INIT([kite], [KITE_MAJOR.KITE_MINOR], [mail])\n",
            "kite",
            "8.1",
            "",
            0,
        ),
    ] {
        let package = read(path, text).unwrap();
        assert_eq!(
            (
                package.name.as_str(),
                package.version.as_str(),
                package.licence.as_str(),
                package.needs.dependencies.len()
            ),
            (name, version, licence, dependencies),
            "{path}"
        );
    }
}

#[test]
fn whatever_a_manifest_holds_nothing_is_made_up() {
    for name in NAMES {
        for text in [
            "",
            "{",
            "[",
            "<",
            "\0",
            "[package]\nname = 1",
            "{\"name\": 1}",
            "<a><b></c>",
            "module",
            "project(",
            "é:\n\té",
        ] {
            let Some(package) = read(name, text) else { continue };
            assert_eq!(package.path, name);
            for found in [&package.name, &package.version, &package.licence] {
                assert!(text.contains(found.as_str()), "{name}: {found} of {text:?}");
            }
        }
    }
}

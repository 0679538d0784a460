#!/usr/bin/env python3
"""Holds surveys of the model `offline` against facts found by other means.

    judge.py PROGRAM DIRECTORY...

PROGRAM is `deputize`. Of each directory ten facts are taken from its manifests (`cargo metadata`,
`tomllib`, `json`, XML), from counts over its files, and from Python's own parser or patterns over
text without comments, and looked for in the report. The table goes to stdout; the exit code is 1
when a fact is missing or false.
"""

import ast
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import xml.etree.ElementTree as xml
from collections import Counter
from pathlib import Path, PurePosixPath

TESTS = {"test", "tests", "__tests__", "spec", "specs", "testdata", "test_data", "fixtures",
         "__mocks__", "e2e", "testsuite", "snapshots", "__snapshots__"}
OTHERS = {"example", "examples", "bench", "benches", "benchmark", "benchmarks", "demo", "demos",
          "samples", "fuzz", "fuzzing"}
FOREIGN = {"vendor", "vendored", "node_modules", "third_party", "dist", "generated", "pregenerated",
           "pods"}
EXTENSIONS = {"rust": ("Rust", (".rs",)), "python": ("Python", (".py", ".pyi", ".pyx", ".pyw")),
              "javascript": ("JavaScript", (".js", ".jsx", ".mjs", ".cjs")),
              "typescript": ("TypeScript", (".ts", ".tsx", ".mts", ".cts")), "go": ("Go", (".go",)),
              "c": ("C", (".c", ".h")), "java": ("Java", (".java",))}
# Languages that have no facts of their own, but whose files can be the largest.
MORE = (".s", ".asm", ".pl", ".pm", ".sh", ".bash", ".cc", ".cpp", ".cxx", ".hpp", ".hh", ".inl", ".rb",
        ".cs", ".kt", ".lua")
LICENCES = [("MIT", "Permission is hereby granted, free of charge"), ("Apache", "Apache License"),
            ("BSD", "Redistribution and use in source and binary forms")]


def is_test(path):
    name = path.name.lower()
    folders = {part.lower() for part in path.parts[:-1]}
    if "/src/main/java/" in f"/{path}":
        folders = {part.lower() for part in PurePosixPath(str(path).split("src/main/java/")[0]).parts}
    return bool(folders & TESTS) or any(f.startswith("test-") for f in folders) \
        or ".test." in name or ".spec." in name or name.startswith("test_") \
        or name.endswith(("_test.go", "_test.py", "_test.rs", "_tests.rs", "_test.c")) \
        or path.name.endswith(("Test.java", "Tests.java")) \
        or name.split(".")[0] in {"test", "tests", "conftest", "fixture", "fixtures", "testutil", "testutils"}


def is_other(path):
    folders = {part.lower() for part in path.parts[:-1]}
    if "/src/main/java/" in f"/{path}":
        folders = {part.lower() for part in PurePosixPath(str(path).split("src/main/java/")[0]).parts}
    named = any(re.search(r"[-_](?:%s)$" % "|".join(OTHERS), folder) for folder in folders)
    return named or bool(folders & (OTHERS | FOREIGN)) or path.name in {"setup.py", "conf.py", "noxfile.py"} \
        or ".min." in path.name or ".config." in path.name


class Repository:
    """A directory, as other tools see it."""

    def __init__(self, root):
        self.root = Path(root)
        # Git tells what its ignore files leave out, also where there is no repository.
        with tempfile.TemporaryDirectory() as git:
            call = ["git", f"--git-dir={git}", f"--work-tree={self.root.resolve()}"]
            subprocess.run([*call, "init", "-q"], check=True, capture_output=True)
            listed = subprocess.run([*call, "ls-files", "-z", "--others", "--exclude-standard"],
                                    cwd=root, capture_output=True, text=True, check=True)
        names = [name for name in listed.stdout.split("\0") if name and (self.root / name).is_file()
                 and not (self.root / name).is_symlink()
                 and not any(part.startswith(".") for part in PurePosixPath(name).parts)]
        self.paths = sorted(PurePosixPath(name) for name in names)
        self.lines = {}
        for path in self.paths:
            data = (self.root / path).read_bytes()
            if data and b"\0" not in data:
                self.lines[path] = data.count(b"\n") + (not data.endswith(b"\n"))
        self.compiled = {path for path in self.lines if self.is_compiled(path) or self.is_generated(path)}
        counts = Counter()
        for path, lines in self.lines.items():
            for key, (_, ends) in EXTENSIONS.items():
                if path.name.endswith(ends) and not set(p.lower() for p in path.parts[:-1]) & FOREIGN:
                    counts[key] += lines
        self.language = counts.most_common(1)[0][0]
        self.facts = dict(self.manifest())

    def text(self, path):
        return (self.root / path).read_text(errors="replace")

    def is_generated(self, path):
        """Whether a comment at the head says that a program wrote it."""
        ends = tuple(end for _, ends in EXTENSIONS.values() for end in ends)
        text = self.text(path)[:4000].lower() if path.name.endswith(ends) else ""
        head = re.match(r"(?:\s*(?://|#|/\*|\*)[^\n]*\n)*", text)[0]
        both = "do not edit" in head and "generated" in head
        return both or re.search(r"@generated|auto(?:matically |-|)generated by", head) is not None

    def is_compiled(self, path):
        """Whether TypeScript below `src` has the same name, and declarations lie beside."""
        match = re.fullmatch(r"(.*?)\.(?:d\.[cm]?ts|[cm]?js)", str(path))
        if not match or not any((self.root / f"{match[1]}.d.{e}ts").exists() for e in ("", "c", "m")):
            return False
        parts = match[1].split("/")
        for at in range(len(parts)):
            for below in (parts[at:], parts[at + 1:]):
                source = "/".join([*parts[:at], "src", *below])
                if below and any((self.root / f"{source}.{e}").exists() for e in ("ts", "tsx", "cts", "mts")):
                    return True
        return False

    def of_language(self):
        ends = EXTENSIONS[self.language][1]
        return [p for p in self.lines if p.name.endswith(ends) and p not in self.compiled
                and not set(part.lower() for part in p.parts[:-1]) & FOREIGN and ".min." not in p.name]

    def own(self):
        """Sources of the main language outside of tests, examples and what others wrote."""
        return [p for p in self.of_language() if not is_test(p) and not is_other(p)]

    def programs(self):
        """Sources of all languages outside of tests, examples and what others wrote."""
        ends = tuple(end for _, ends in EXTENSIONS.values() for end in ends) + MORE
        return [p for p in self.lines if p.name.lower().endswith(ends) and p not in self.compiled and not is_test(p) and not is_other(p)]

    def code(self, path):
        """A text without comments."""
        text = self.text(path)
        if self.language == "python":
            return text
        return re.sub(r"/\*.*?\*/|(?<!:)//[^\n]*", "", text, flags=re.S)

    def manifest(self):
        has = lambda name: (self.root / name).exists()
        if self.language == "rust" and has("Cargo.toml"):
            return self.cargo()
        if self.language == "python":
            return self.python()
        if self.language in ("javascript", "typescript") and has("package.json"):
            return self.npm()
        if self.language == "go":
            return self.go()
        if self.language == "java":
            return self.maven()
        return self.native()

    def cargo(self):
        manifest = tomllib.loads(self.text("Cargo.toml"))
        package = manifest["package"]
        yield from ((key, package.get(key)) for key in ("name", "version", "license"))
        wanted = {n for n, v in manifest.get("dependencies", {}).items()
                  if not (isinstance(v, dict) and v.get("optional"))}
        some = set()
        for target in manifest.get("target", {}).values():
            some |= {n for n, v in target.get("dependencies", {}).items()
                     if not (isinstance(v, dict) and v.get("optional"))}
        if (self.root / "pyproject.toml").exists():
            project = tomllib.loads(self.text("pyproject.toml")).get("project", {})
            wanted |= {re.match(r"[\w.-]+", d)[0] for d in project.get("dependencies", []) if ";" not in d}
            some |= {re.match(r"[\w.-]+", d)[0] for d in project.get("dependencies", []) if ";" in d}
        yield "dependencies", wanted
        yield "conditional", some - wanted
        shown = subprocess.run(["cargo", "read-manifest"], cwd=self.root, capture_output=True, text=True)
        targets = json.loads(shown.stdout)["targets"] if shown.returncode == 0 else []
        entries = [str(Path(t["src_path"]).relative_to(self.root.resolve())) for t in targets
                   if set(t["kind"]) & {"lib", "bin", "proc-macro", "cdylib", "rlib"}]
        yield "entries", entries
        yield "commands", ["cargo build", "cargo test"]

    def python(self):
        project = {}
        if (self.root / "pyproject.toml").exists():
            project = tomllib.loads(self.text("pyproject.toml")).get("project", {})
        info = {}
        if (self.root / "PKG-INFO").exists():
            for line in self.text("PKG-INFO").split("\n\n")[0].splitlines():
                key, _, value = line.partition(": ")
                info.setdefault(key, value)
        yield "name", project.get("name") or info.get("Name")
        yield "version", project.get("version") or info.get("Version")
        licence = project.get("license") or info.get("License-Expression") or info.get("License")
        licence = licence.get("text") if isinstance(licence, dict) else licence
        if not licence:
            words = [c for c in project.get("classifiers", []) if c.startswith("License ::")]
            licence = words[0].rsplit(" :: ")[-1] if words else None
        yield "license", licence
        named = [(re.match(r"[\w.-]+", d)[0], ";" in d) for d in project.get("dependencies", [])]
        wanted = {name for name, marked in named if not marked}
        yield "dependencies", wanted
        yield "conditional", {name for name, marked in named if marked} - wanted
        yield "entries", self.imported(project.get("name") or info.get("Name") or "") + (
            [target for target in project.get("scripts", {})] or [str(p) for p in self.own() if self.runs(p)])
        yield "commands", ["python -m pip install .", "python -m pytest"]

    def imported(self, name):
        """The file with which a package of this name begins, in the places where tools look."""
        name = re.sub(r"[-.]", "_", name)
        for base in ("src/", "lib/", "python/", ""):
            for path in self.paths:
                if str(path).lower() in (f"{base}{name}/__init__.py".lower(), f"{base}{name}.py".lower()):
                    return [str(path)]
        return []

    def runs(self, path):
        tree = ast.parse(self.text(path))
        return any(isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)
                   and "__main__" in ast.unparse(node.test) for node in tree.body)

    def npm(self):
        top = json.loads(self.text("package.json"))
        main = top
        if not top.get("name"):
            # The package of the workspace that holds most of the sources.
            own = self.own()
            for path in self.paths:
                if path.name == "package.json" and len(path.parts) > 1:
                    below = sum(self.lines[p] for p in own if path.parent in p.parents)
                    if below * 2 > sum(self.lines[p] for p in own):
                        main = json.loads(self.text(path))
        yield from ((key, main.get(key)) for key in ("name", "version", "license"))
        wanted = set()
        names = set()
        for path in self.paths:
            if path.name == "package.json" and not is_test(path) and not is_other(path):
                manifest = json.loads(self.text(path))
                names.add(manifest.get("name"))
                meta = manifest.get("peerDependenciesMeta", {})
                wanted |= set(manifest.get("dependencies", {}))
                wanted |= {n for n in manifest.get("peerDependencies", {}) if not meta.get(n, {}).get("optional")}
        yield "dependencies", wanted - names
        entry = main.get("main") or main.get("module") or ("index.js" if (self.root / "index.js").exists() else None)
        yield "entries", [entry.removeprefix("./")] if entry else []
        manager = "pnpm" if (self.root / "pnpm-lock.yaml").exists() else \
            "yarn" if (self.root / "yarn.lock").exists() else "npm"
        yield "commands", [f"{manager} install"] + ([f"{manager} test"] if "test" in top.get("scripts", {}) else [])

    def go(self):
        text = self.text("go.mod")
        yield "name", re.search(r"^module (\S+)", text, re.M)[1]
        yield "version", None
        yield "license", self.licence()
        text = text.replace('"', "")
        lines = [l for l in text.splitlines() if re.match(r"^(require )?\s*[\w.-]+\.[\w./-]+ v", l) and "// indirect" not in l]
        yield "dependencies", {re.search(r"([\w.-]+\.[\w./-]+) v", l)[1] for l in lines}
        yield "entries", [str(p) for p in self.own() if re.search(r"^package main\b", self.code(p), re.M)
                          and re.search(r"^func main\(\)", self.code(p), re.M)]
        yield "commands", ["go build ./...", "go test ./..."]

    def maven(self):
        space = {"m": "http://maven.apache.org/POM/4.0.0"}
        top = xml.fromstring(self.text("pom.xml"))
        word = lambda node, path: (node.findtext(path, namespaces=space) or "").strip() or None
        yield "name", word(top, "m:artifactId")
        yield "version", word(top, "m:version") or word(top, "m:parent/m:version")
        yield "license", word(top, "m:licenses/m:license/m:name")
        wanted, names = set(), set()
        for path in self.paths:
            if path.name == "pom.xml" and not is_test(path) and not is_other(path):
                pom = xml.fromstring(self.text(path))
                names.add(word(pom, "m:artifactId"))
                for node in pom.findall("m:dependencies/m:dependency", space):
                    if word(node, "m:scope") not in ("test", "provided", "system") and word(node, "m:optional") != "true":
                        wanted.add(word(node, "m:artifactId"))
        yield "dependencies", wanted - names
        yield "entries", [str(p) for p in self.own()
                          if re.search(r"public static void main\s*\(\s*(final )?String", self.code(p))]
        yield "commands", ["mvn package", "mvn test"]

    def native(self):
        text = re.sub(r"#.*", "", self.text("CMakeLists.txt"))
        found = re.search(r"project\s*\(\s*(\w+)([^)]*)", text, re.I | re.S)
        version = re.search(r"VERSION\s+([\d.]+)", found[2])
        yield "name", found[1]
        # Registries unpack sources into a folder with the version.
        yield "version", version[1] if version else re.search(r"[-_](\d[\w.]*)$", self.root.resolve().name)[1]
        yield "license", self.licence()
        yield "dependencies", None
        yield "entries", [str(p) for p in self.own()
                          if re.search(r"^(?:int|void)\s+main\s*\(", self.code(p), re.M)]
        yield "commands", ["cmake -B build && cmake --build build", "ctest --test-dir build"]

    def licence(self):
        for path in self.paths:
            if len(path.parts) == 1 and path.name.upper().startswith(("LICEN", "COPYING")):
                text = self.text(path)
                return next((name for name, mark in LICENCES if mark in text), None)
        return None

    def tests(self):
        """The number of test functions of all languages."""
        main, total = self.language, 0
        for self.language in EXTENSIONS:
            total += self.tests_of_language()
        self.language = main
        return total

    def tests_of_language(self):
        """The number of test functions, as a pattern or Python's parser counts them."""
        total = 0
        for path in self.of_language():
            if is_other(path) and not is_test(path) and self.language != "rust":
                continue
            if self.language == "rust":
                total += self.rust_tests(path)
            elif self.language == "python" and is_test(path):
                total += self.collected(ast.parse(self.text(path)).body, True)
            elif self.language in ("javascript", "typescript") and is_test(path):
                code = self.code(path)
                total += len(re.findall(r"(?<![\w.$])(?:it|test)(?:\.(?!each)\w+)*\(\s*[\"'`]", code))
                total += len(re.findall(r"(?<![\w.$])(?:it|test)(?:\.\w+)*\.each\b", code))
            elif self.language == "go" and path.name.endswith("_test.go"):
                total += len(re.findall(r"^func Test(?![a-z])\w*\(\w+ \*testing\.T\)", self.code(path), re.M))
            elif self.language == "java":
                total += len(re.findall(r"@(?:Test|ParameterizedTest|RepeatedTest)\b", self.code(path)))
        return total

    def rust_tests(self, path):
        """Functions with an attribute of tests, outside of comments that begin a line. What the
        definition of a macro has in it is none yet."""
        text = re.sub(r"(?ms)^\s*/\*.*?\*/", "", self.text(path))
        text = re.sub(r"(?ms)^( *)macro_rules! \w+ *[({]\n.*?^\1[)}]", "", text)
        total, test = 0, False
        for line in text.splitlines():
            if re.match(r"\s*#\[(?:\w+::)*(?:test|rstest|quickcheck|test_case|wasm_bindgen_test)\b", line):
                test = True
            if re.match(r"\s*(?:#\[.*\]\s*)?(?:pub(?:\([^)]*\))? )?(?:const |async |unsafe )*fn \w", line):
                total += test
                test = False
        return total

    def collected(self, body, good):
        count = 0
        for node in body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                count += good and node.name.startswith("test")
            elif isinstance(node, ast.ClassDef):
                named = node.name.startswith("Test") or any("Test" in ast.unparse(b) for b in node.bases)
                count += self.collected(node.body, good and named)
            elif isinstance(node, (ast.If, ast.Try, ast.With)):
                count += self.collected(node.body, good)
        return count

    def rust_target(self, path, leaf):
        """The file of the module that a leaf of a `use` of Rust names, in the crate of a file."""
        root = next((p for p in path.parents if (self.root / p / "Cargo.toml").exists()), PurePosixPath())
        if root / "src" not in path.parents:
            return None
        at = list(path.relative_to(root / "src").with_suffix("").parts)
        if at[-1] in ("mod", "lib", "main"):
            at.pop()
        first, *rest = leaf.split("::")
        if first == "crate":
            at = []
        elif first == "super":
            at.pop()
            while rest and rest[0] == "super":
                at.pop()
                rest.pop(0)
        at += [part for part in rest if part not in ("self", "*")]
        while at:
            stem = root.joinpath("src", *at)
            for name in (stem.with_suffix(".rs"), stem / "mod.rs"):
                if name in self.lines:
                    return name
            at.pop()
        roots = [p for p in (root / "src/lib.rs", root / "src/main.rs") if p in self.lines]
        return roots[0] if len(roots) == 1 else None

    def importers(self, target):
        """The files that import a file or folder, by patterns over text without comments."""
        target = PurePosixPath(target)
        found = set()
        for path in self.own():
            code = self.code(path)
            if path == target:
                continue
            if self.language == "rust":
                code = re.split(r"#\[cfg\((?:all\()?test[^\n]*\]\s*\n\s*(?:pub )?mod \w+ \{", code)[0]
                code = re.sub(r'(?s)"(?:\\.|[^"\\])*"', '""', code)
                for use in re.findall(r"\buse\s+((?:crate|super|self)\b[^;]*);", code):
                    if any(self.rust_target(path, leaf) == target for leaf in leaves(use)):
                        found.add(path)
            elif self.language == "python":
                name = target.stem if target.name != "__init__.py" else target.parent.name
                for node in ast.walk(ast.parse(code)):
                    if isinstance(node, ast.ImportFrom):
                        if (node.module or "").split(".")[-1] == name or \
                                any(a.name == name for a in node.names) and (node.level or node.module):
                            found.add(path)
                    elif isinstance(node, ast.Import) and any(a.name.split(".")[-1] == name and "." in a.name for a in node.names):
                        found.add(path)
            elif self.language in ("javascript", "typescript"):
                for spec in re.findall(r"(?:from|require\(|import\(|import)\s*[\"'](\.[^\"']*)[\"']", code):
                    at = os.path.normpath(str(path.parent / spec))
                    stem = str(target.with_suffix(""))
                    if at == str(target) or re.sub(r"\.(?:[cm]?js|tsx?)$", "", at) in (stem, stem.removesuffix("/index")):
                        found.add(path)
            elif self.language == "go":
                module = self.facts["name"]
                folder = str(target).strip("./")
                if f'"{module}{"/" + folder if folder else ""}"' in code:
                    found.add(path)
            elif self.language == "java":
                name = ".".join(target.with_suffix("").parts).split("java.", 1)[-1]
                if re.search(rf"^import (?:static )?{re.escape(name)}[.;]", code, re.M):
                    found.add(path)
            else:
                for inc in re.findall(r'#\s*include\s+"([^"]+)"', self.text(path)):
                    if PurePosixPath(inc).name == target.name:
                        found.add(path)
        return len(found)


def leaves(use):
    """The paths that a `use` of Rust names, without its braces."""
    use = re.sub(r"\s+", " ", use).strip()
    if "{" not in use:
        return [re.sub(r" as \w+$", "", use)]
    head, _, rest = use.partition("{")
    inner, depth, part, parts = rest.rsplit("}", 1)[0], 0, "", []
    for letter in inner + ",":
        depth += (letter == "{") - (letter == "}")
        if letter == "," and not depth:
            parts.append(part)
            part = ""
        else:
            part += letter
    return [leaf for part in parts if part.strip() for leaf in leaves(head + part.strip())]


def number(text):
    return int(text.replace(",", ""))


def judge(repository, report):
    """Yields (fact, right or wrong or missing, what was said, what is)."""
    facts = repository.facts
    title = re.search(r"^# (.*)$", report, re.M)[1]
    name, version = facts.get("name"), facts.get("version")
    yield "name", title.split(" ")[0] == name, title, name
    said = title.removeprefix(name or "").strip()
    yield "version", said == (version or ""), said or "none", version or "none"
    licence = re.search(r"^- Licence: (.*)$", report, re.M)
    licence = licence[1] if licence else ""
    wanted = facts.get("license") or repository.licence()
    yield "licence", bool(wanted) and wanted in licence, licence, wanted
    label = EXTENSIONS[repository.language][0]
    size = re.search(rf"{re.escape(label)} ([\d,]+) lines? in ([\d,]+) files?", report)
    mine = repository.of_language()
    counted = (sum(repository.lines[p] for p in mine), len(mine))
    yield "size", size and (number(size[1]), number(size[2])) == counted, size and size[0], counted
    missing = [c for c in facts["commands"] if f"`{c}`" not in report]
    yield "commands", not missing, "all" if not missing else f"without {missing}", facts["commands"]
    section = report.split("## Entry points", 1)
    body = section[1].split("\n## ")[0] if len(section) > 1 else ""
    entries = facts["entries"]
    lacking = [e for e in entries if e not in body]
    left = re.search(r"^- and (\d+) more", body, re.M)
    right = len(lacking) <= (int(left[1]) if left else 0) and bool(entries) == bool(body.strip())
    yield "entry points", right, f"{len(entries) - len(lacking)} of {len(entries)}", entries[:3]
    wanted = facts["dependencies"]
    found = re.search(r"^(?:([\d,]+)|None) at run time:?(.*)", report, re.M)
    if wanted is None:
        yield "dependencies", found is None, "none stated", "none"
    else:
        said = number(found[1]) if found and found[1] else 0
        names = set(re.findall(r"(?:^|,) `([^`]+)`", found[2])) if found else set()
        section = report.split("## Dependencies\n\n", 1)[-1].split("\n## ")[0]
        under = re.findall(r"^- (?:On|For|Where) .*?: (.*)$", section, re.M)
        some = {name for line in under for name in re.findall(r"(?:^|, )`([^`]+)`", line)}
        true = facts.get("conditional", set())
        right = said == len(wanted) and names <= wanted and (some == true or len(true) > 12 and some < true)
        yield "dependencies", right, (said, sorted(some)), (len(wanted), sorted(true))
    largest = re.search(r"^- Largest files, in lines: (.*)$", report, re.M)
    stated = [(p, number(n)) for p, n in re.findall(r"`([^`]+)` ([\d,]+)", largest[1])] if largest else []
    own = sorted((-repository.lines[p], str(p)) for p in repository.programs())[:3]
    true = all(repository.lines.get(PurePosixPath(p)) == n for p, n in stated)
    yield "largest files", true and [p for p, _ in stated][:3] == [p for _, p in own], stated[:3], own
    most = re.search(r"^- Imported by most files: (.*)$", report, re.M)
    stated = [(p, number(n)) for p, n in re.findall(r"`([^`]+)` ([\d,]+)", most[1])] if most else []
    candidates = [p for p, _ in stated[:1]] or sorted({name for p in repository.own() for name in
                                                       (str(p), f"{p.parent}/".replace("./", ""))})
    counted = sorted(((p, repository.importers(p)) for p in candidates if p), key=lambda c: -c[1])[:1]
    # What fewer than two files import is not worth a line.
    right = stated[:1] == counted if stated else not counted or counted[0][1] < 2
    yield "most imported", right, stated[:1] or "none", counted
    tests = re.search(r"^([\d,]+) test functions? in", report, re.M)
    said = number(tests[1]) if tests else 0
    yield "tests", said == repository.tests(), said, repository.tests()


def main():
    program, *directories = sys.argv[1:]
    right = total = 0
    print("| repository | language | right | what differs |\n| --- | --- | ---: | --- |")
    for directory in directories:
        repository = Repository(directory)
        ran = subprocess.run([program, "run", "-q", "-m", "offline", "-C", directory, "Survey this repository"]
                             if Path(program).name == "deputize" else [program, directory],
                             capture_output=True, text=True)
        good, notes = 0, []
        for fact, fits, said, true in judge(repository, ran.stdout):
            total += 1
            good += bool(fits)
            if not fits:
                notes.append(f"{fact}: said {said}, is {true}")
        right += good
        name = Path(directory).resolve().name
        print(f"| {name} | {EXTENSIONS[repository.language][0]} | {good} of 10 | {'; '.join(notes)} |")
    print(f"\n{right} of {total} right.")
    return 0 if right == total else 1


if __name__ == "__main__":
    sys.exit(main())

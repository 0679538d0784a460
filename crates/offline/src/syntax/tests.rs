use super::*;

fn outline_of(path: &str, text: &str) -> Outline {
    let test = crate::part::part_of(path) == crate::part::Part::Test;
    outline(Grammar::of(path).unwrap(), text, test)
}

#[test]
fn rust_is_read_by_its_items() {
    let text = "//! Parses kites. And more.\n#![allow(x)]\nuse crate::a::{b, c::D, self};\n\
                use super::x::*;\npub use kite::tail as t;\n#[cfg(test)]\nmod far;\n\
                fn main() {}\n#[cfg(test)]\nmod tests {\n use crate::hidden::X;\n \
                #[tokio::test]\n async fn a() {}\n #[test]\n fn b() {}\n fn helper() {}\n \
                const S: &str = \"#[test] fn no() {}\";\n}\n/// ```\n/// #[test]\n/// fn no() {}\n/// ```\nfn x() {}\n";
    let out = outline_of("src/lib.rs", text);
    assert_eq!(out.doc.as_deref(), Some("Parses kites."));
    assert_eq!((out.tests, out.mains.as_slice()), (2, [8].as_slice()));
    assert_eq!(out.test_modules, ["far"]);
    let imports: Vec<String> = out
        .imports
        .iter()
        .map(|import| match import {
            Import::Rust(path) => path.join("::"),
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(imports, ["crate::a::b", "crate::a::c::D", "crate::a", "super::x", "kite::tail"]);
}

#[test]
fn python_tests_are_those_that_a_runner_collects() {
    let text = "\"\"\"Flies kites.\n\nMore.\n\"\"\"\nfrom .wing import lift as up, drop\nimport os.path\n\
                class TestWing:\n    def test_a(self):\n        def test_inner(): pass\n\
                class Helper:\n    def test_no(self): pass\ndef test_b(): pass\ndef check(): pass\n\
                EXAMPLE = 'def test_c(): pass'\nif __name__ == '__main__':\n    run()\n";
    let test = outline_of("tests/test_wing.py", text);
    assert_eq!((test.tests, test.mains.len()), (2, 0));
    assert_eq!(test.doc.as_deref(), Some("Flies kites."));
    let main = outline_of("kite/wing.py", text);
    assert_eq!((main.tests, main.mains.as_slice()), (0, [15].as_slice()));
    let named = |name: &str| Import::Python { dots: 1, module: "wing".into(), name: name.into() };
    assert_eq!(main.imports.get(..2), Some([named("lift"), named("drop")].as_slice()));
}

#[test]
fn scripts_show_their_imports_and_tests() {
    let text = "/**\n * Draws kites.\n */\nimport a from './a';\nexport * from \"./b\";\n\
                const c = require('./c');\n// import x from './comment';\nconst s = \"import './text'\";\n\
                it('flies', () => {});\ntest.each([1])('lands', () => {});\nsplit('x', 1);\n";
    let out = outline_of("web/kite.test.ts", text);
    assert_eq!(out.doc.as_deref(), Some("Draws kites."));
    assert_eq!(out.tests, 2);
    let script = |name: &str| Import::Script(name.into());
    assert_eq!(out.imports, [script("./a"), script("./b"), script("./c")]);
}

#[test]
fn tests_of_node_tap_are_those_of_the_name_that_the_file_gives_it() {
    for (text, tests) in [
        (
            "const t = require('tap');\nt.test('a', t => { t.test('b', t => t.end()); });\nt.skip('c');\n",
            2,
        ),
        ("import tap from \"tap\";\ntap.test('a', async () => {});\ntap.only('b', () => {});\n", 2),
        (
            "import * as t from 'tap';\nt.test(`a`, () => {});\nother.test('b');\n/a/.test('c');\n",
            1,
        ),
        ("var t = require('tape');\nt.test('a', fn);\nt('b', fn);\nt(1);\n", 2),
        ("const t = make();\nt.test('a', fn);\n", 0),
    ] {
        assert_eq!(outline_of("test/kite.js", text).tests, tests, "{text}");
    }
}

#[test]
fn go_c_and_java_show_where_programs_begin() {
    let go = "// Package main flies kites.\npackage main\n\nimport (\n\t\"fmt\"\n\tw \"example.org/kite/wing\"\n)\n\nfunc main() { fmt.Println(w.X) }\n";
    let out = outline_of("cmd/kite/main.go", go);
    assert_eq!(
        (out.mains.as_slice(), out.doc.as_deref()),
        ([9].as_slice(), Some("Package main flies kites."))
    );
    assert_eq!(out.imports.len(), 2);
    let test = "package kite\n\nfunc TestFly(t *testing.T) {}\nfunc Testify(x int) {}\nfunc TestMain(m *testing.M) {}\nfunc BenchmarkFly(b *testing.B) {}\n";
    assert_eq!(outline_of("kite_test.go", test).tests, 1);
    let c = "/* Flies kites for everybody. */\n#include \"wing.h\"\n#include <stdio.h>\nstatic int helper(void) { return 1; }\nint main(int argc, char **argv)\n{\n  return 0;\n}\n";
    let out = outline_of("src/kite.c", c);
    assert_eq!(
        (out.mains.as_slice(), out.imports),
        ([5].as_slice(), vec![Import::C("wing.h".into())])
    );
    let java = "package kite;\n\nimport kite.wing.Lift;\n\npublic class Kite {\n  @Test void flies() {}\n  @Before void up() {}\n  public static void main(String[] args) {}\n}\n";
    let out = outline_of("src/Kite.java", java);
    assert_eq!((out.mains.as_slice(), out.tests), ([8].as_slice(), 1));
    assert_eq!(out.imports, [Import::Java("kite.wing.Lift".into())]);
}

#[test]
fn an_annotation_of_a_test_may_be_qualified() {
    let java = "class KiteTest {\n  @org.junit.Test public void a() {}\n  \
                @org.junit.jupiter.api.Test void b() {}\n  @org.junit.jupiter.params.ParameterizedTest\n  \
                @ValueSource(ints = {1}) void c(int x) {}\n  @Test(timeout = 1) public void d() {}\n  \
                @org.junit.Before public void up() {}\n}\n";
    assert_eq!(outline_of("src/test/java/KiteTest.java", java).tests, 4);
}

#[test]
fn remarks_are_comments_and_generated_files_say_so() {
    let rust = "// TODO: wind\nfn f() { g(\"TODO\"); todo!(); }\n/* FIXME */\n";
    assert_eq!(outline_of("a.rs", rust).remarks, 2);
    for (path, text, yes) in [
        ("a.go", "// Code generated by x. DO NOT EDIT.\npackage a\n", true),
        ("a.rs", "// @generated\nfn a() {}\n", true),
        ("a.py", "x = 'generated, do not edit'\n", false),
        ("a.rs", "fn a() {}\n// @generated\n", false),
    ] {
        assert_eq!(outline_of(path, text).generated, yes, "{path}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "one case for each kind of comment")]
fn only_documentation_describes_a_file() {
    for (path, text, doc) in [
        ("a.rs", "//! Reads, e.g. kites. And more.\n", Some("Reads, e.g. kites.")),
        (
            "a.rs",
            "// Copyright 2015 A.\n\n//! # Flags\n//!\n//! <table>\n//! <tr><td>Enable\n\
             //!     kites as fast ones (see\n//! </table>\nfn a() {}\n",
            None,
        ),
        (
            "a.rs",
            "//! <img src=\"x\">\n//!\n//! [![ci](a)](b)\n//!\n//! - [Docs](x)\n//!   and more\n//!\n\
             //! Flies [`Kite`]s\n//! of all sizes. More.\n",
            Some("Flies `Kite`s of all sizes."),
        ),
        ("a.rs", "//! This file is part of Kite.\n//!\n//! Kite is free software.\n", None),
        (
            "a.c",
            "/*\n** 2010 April 7\n**\n** The author disclaims copyright to this source code.\n*/\n\n#include <a.h>\n",
            None,
        ),
        (
            "a.c",
            "// Copyright 2020 A.\n//\n// Unless required by applicable law, software\n// is as it is.\n\n#include <a.h>\n",
            None,
        ),
        ("a.c", "/* For strdup. */\n#include <string.h>\n", None),
        ("a.c", "/******\n * Flies kites.\n ******/\n\nint a;\n", None),
        ("a.c", "/**\n * Flies a kite.\n */\nint fly(void);\n", None),
        ("a.c", "/* a.c - flies kites. */\n#include <x.h>\n", Some("flies kites.")),
        ("a.h", "/**\n * @file a.h\n * @brief Flies kites.\n */\n\nint a;\n", Some("Flies kites.")),
        ("a.js", "/*! kite 1.0, by A */\n'use strict';\n", None),
        ("a.ts", "/* eslint-disable no-console */\nimport a from 'a';\n", None),
        (
            "a.ts",
            "/**\n * @fileoverview Flies kites.\n */\nimport a from 'a';\n",
            Some("Flies kites."),
        ),
        ("a.ts", "/**\n * @license MIT\n * Do what you want.\n */\n\na();\n", None),
        ("a.ts", "/**\n * @module kite\n */\n\na();\n", None),
        ("a.js", "/**\n * Two\n * lines. Next.\n */\n\na();\n", Some("Two lines.")),
        (
            "a.go",
            "// Copyright 2020 A. All rights reserved.\n// Use of this source code is governed by a licence.\npackage a\n",
            None,
        ),
        ("a.go", "//go:build linux\n// +build linux\n\npackage a\n", None),
        ("a.go", "// helpers of b\npackage a\n", None),
        (
            "a.go",
            "//lint:file-ignore x y z\n// Package a flies.\npackage a\n",
            Some("Package a flies."),
        ),
        (
            "a.py",
            "\"\"\"\nkite.wing\n~~~~~~~~~\n\n:copyright: (c) 2020 by A\n:license: BSD\n\"\"\"\n",
            None,
        ),
        (
            "a.py",
            "\"\"\"\nkite.wing\n~~~~~~~~~\n\nLifts kites\nof all sizes.\n\n:copyright: A\n\"\"\"\n",
            Some("Lifts kites of all sizes."),
        ),
        ("a.py", "\"\"\"Licensed to A under one or more agreements.\"\"\"\n", None),
        ("a.py", "#!/usr/bin/env python\n# Flies.\n", None),
        (
            "A.java",
            "/**\n * Licensed to A.\n */\npackage a;\n\n/**\n * Flies {@link Kite kites} of all sizes.\n * @author A\n */\npublic class A {}\n",
            Some("Flies kites of all sizes."),
        ),
    ] {
        assert_eq!(outline_of(path, text).doc.as_deref(), doc, "{path}: {text}");
    }
}

#[test]
fn any_text_can_be_read_in_any_language() {
    let texts = [
        "",
        "\0",
        "}{)(",
        "\u{feff}fn",
        "é",
        "\"\"\"",
        "/*",
        "use a::{b, {c}};",
        "import",
        "from . import",
        "#[cfg(test)]",
        "mod",
        "it(",
        "package",
        "#include",
        "class A extends",
    ];
    let deep = "(".repeat(20_000);
    for path in ["a.rs", "a.py", "a.js", "a.ts", "a.tsx", "a.go", "a.c", "a.java"] {
        for text in texts.iter().copied().chain([deep.as_str()]) {
            let _ = outline_of(path, text);
        }
    }
}

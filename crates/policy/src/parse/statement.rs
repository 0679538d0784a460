//! Commands of every kind.

use std::rc::Rc;

use tree_sitter::Node;

use super::expansion::name_and_index;
use super::{Source, children, redirect, word};
use crate::syntax::{AssignedValue, Assignment, Command, Piece, Redirect, SimpleCommand, Word};

/// Reads the commands that are children of a node.
pub(super) fn block(source: &mut Source<'_>, node: Node<'_>) -> Vec<Command> {
    let nodes: Vec<_> = children(node).into_iter().map(|it| it.1).collect();
    source.deeper(|source| commands(source, &nodes))
}

fn commands(source: &mut Source<'_>, nodes: &[Node<'_>]) -> Vec<Command> {
    let mut found: Vec<Command> = Vec::new();
    for node in nodes {
        if node.kind() == "&" {
            if let Some(last) = found.pop() {
                found.push(Command::Background(Box::new(last)));
            }
        } else if node.is_named() {
            found.extend(command(source, *node));
        }
    }
    found
}

fn command(source: &mut Source<'_>, node: Node<'_>) -> Option<Command> {
    source.deeper(|source| Some(command_of(source, node))).flatten()
}

fn command_of(source: &mut Source<'_>, node: Node<'_>) -> Option<Command> {
    Some(match node.kind() {
        "comment" | "heredoc_body" | "heredoc_end" | "heredoc_start" => return None,
        "command" => simple(source, node),
        "variable_assignment" | "variable_assignments" => simple(source, node),
        "declaration_command" | "unset_command" => declaration(source, node),
        "redirected_statement" => redirected(source, node),
        "pipeline" => Command::Pipeline(block(source, node)),
        "list" => list(source, node),
        "negated_command" | "program" => Command::Sequence(block(source, node)),
        "compound_statement" => Command::Group { body: block(source, node), is_subshell: false },
        "subshell" => Command::Group { body: block(source, node), is_subshell: true },
        "function_definition" => function(source, node),
        "for_statement" => for_loop(source, node),
        "c_style_for_statement" => {
            let condition = word::commands_inside_head(source, node);
            Command::While { condition, body: body_of(source, node) }
        }
        "while_statement" => Command::While {
            condition: field_commands(source, node, "condition"),
            body: body_of(source, node),
        },
        "if_statement" => branches(source, node),
        "case_statement" => case(source, node),
        "ERROR" => broken(source, node),
        "test_command" => {
            let inside = Rc::new(word::commands_inside(source, node));
            Command::Words(vec![Word { pieces: vec![Piece::Unknown { inside }] }])
        }
        _ => Command::Words(vec![word::word(source, node)]),
    })
}

/// Reads assignments, words and redirects.
fn simple(source: &mut Source<'_>, node: Node<'_>) -> Command {
    let nodes: Vec<_> = children(node).into_iter().map(|it| it.1).collect();
    let nodes = if node.kind() == "variable_assignment" { vec![node] } else { nodes };
    let mut simple = SimpleCommand::default();
    let mut trailing = Vec::new();
    let mut end = None;
    for node in nodes {
        let before = end.replace(node.end_byte());
        let gap = before.map_or(" ", |before| source.between(before, node.start_byte()));
        if node.kind() == "subshell" {
            trailing.extend(block(source, node));
        } else if gap.is_empty() && is_word(node) && simple.words.last().is_some() {
            word::extend(source, node, &mut simple);
        } else {
            let gap = gap.replace("\\\n", " ").replace("\\\r\n", " ");
            if !gap.trim().is_empty() {
                source.is_doubtful.set(true);
            }
            push_part(source, node, &mut simple);
        }
    }
    let simple = Command::Simple(simple);
    if trailing.is_empty() {
        return simple;
    }
    // `time (…)` and the like.
    let body = Command::Group { body: trailing, is_subshell: true };
    Command::Sequence(vec![simple, body])
}

fn is_word(node: Node<'_>) -> bool {
    !matches!(
        node.kind(),
        "variable_assignment" | "file_redirect" | "herestring_redirect" | "comment"
    )
}

fn push_part(source: &mut Source<'_>, node: Node<'_>, simple: &mut SimpleCommand) {
    match node.kind() {
        "variable_assignment" => simple.assignments.extend(assignment(source, node)),
        "file_redirect" => {
            let (redirect, words) = redirect::file_redirect(source, node);
            simple.redirects.extend(redirect);
            simple.words.extend(words);
        }
        "herestring_redirect" => simple.redirects.extend(redirect::here_string(source, node)),
        "comment" => {}
        _ => simple.words.push(word::word(source, node)),
    }
}

fn assignment(source: &mut Source<'_>, node: Node<'_>) -> Option<Assignment> {
    let name = node.child_by_field_name("name")?;
    let (name, index) = name_and_index(source.text_of(name));
    let appends = children(node).iter().any(|it| it.1.kind() == "+=");
    let value = match node.child_by_field_name("value") {
        Some(value) if value.kind() == "array" => {
            let items = children(value).into_iter().filter(|it| it.1.is_named());
            AssignedValue::Array(items.map(|it| word::word(source, it.1)).collect())
        }
        Some(value) => AssignedValue::One(word::word(source, value)),
        None => AssignedValue::One(Word::default()),
    };
    Some(Assignment { name, index, appends, value })
}

/// Reads `export A=1 B` as a command with assignments behind its name.
fn declaration(source: &mut Source<'_>, node: Node<'_>) -> Command {
    let mut simple = SimpleCommand::default();
    let mut assignments = Vec::new();
    for (_, child) in children(node) {
        if child.kind() == "variable_assignment" {
            assignments.extend(assignment(source, child));
        } else {
            push_part(source, child, &mut simple);
        }
    }
    // The assignments hold on after the command.
    let assigned = SimpleCommand { assignments, ..SimpleCommand::default() };
    Command::Sequence(vec![Command::Simple(assigned), Command::Simple(simple)])
}

/// Reads a command with redirects behind it. Behind a here-document's mark the grammar has the rest
/// of its line.
fn redirected(source: &mut Source<'_>, node: Node<'_>) -> Command {
    let body = node.child_by_field_name("body").and_then(|it| command(source, it));
    let mut body = body.unwrap_or_else(|| Command::Simple(SimpleCommand::default()));
    let mut behind = Vec::new();
    for (_, child) in children(node) {
        match child.kind() {
            "file_redirect" => {
                let (redirect, words) = redirect::file_redirect(source, child);
                body = attach(body, redirect, words);
            }
            "herestring_redirect" => {
                let redirect = redirect::here_string(source, child);
                body = attach(body, redirect, Vec::new());
            }
            "heredoc_redirect" => {
                let redirect = redirect::here_document(source, child);
                body = attach(body, redirect, Vec::new());
                (body, behind) = behind_mark(source, child, body);
            }
            _ => {}
        }
    }
    if behind.is_empty() {
        return body;
    }
    behind.insert(0, body);
    Command::Sequence(behind)
}

/// Reads the rest of the line behind a here-document's mark.
fn behind_mark(source: &mut Source<'_>, node: Node<'_>, body: Command) -> (Command, Vec<Command>) {
    let mut body = body;
    let mut behind = Vec::new();
    for (field, child) in children(node) {
        match (field, child.kind()) {
            (_, "file_redirect") => {
                let (redirect, words) = redirect::file_redirect(source, child);
                body = attach(body, redirect, words);
            }
            (_, "herestring_redirect") => {
                let redirect = redirect::here_string(source, child);
                body = attach(body, redirect, Vec::new());
            }
            ("argument", _) => body = attach(body, None, vec![word::word(source, child)]),
            (_, "pipeline") => {
                let mut stages = vec![body];
                stages.extend(block(source, child));
                body = Command::Pipeline(stages);
            }
            ("right", _) => behind.extend(command(source, child)),
            (_, "ERROR") => behind.extend(command(source, child)),
            _ => {}
        }
    }
    (body, behind)
}

/// Adds a redirect and words to the command that they belong to: the last one of a pipeline or list.
fn attach(command: Command, redirect: Option<Redirect>, words: Vec<Word>) -> Command {
    match command {
        Command::Simple(mut simple) => {
            simple.redirects.extend(redirect);
            simple.words.extend(words);
            Command::Simple(simple)
        }
        Command::Pipeline(mut stages) => {
            if let Some(last) = stages.pop() {
                stages.push(attach(last, redirect, words));
            }
            Command::Pipeline(stages)
        }
        Command::Either(first, last) => {
            Command::Either(first, Box::new(attach(*last, redirect, words)))
        }
        Command::Sequence(mut all) => {
            if let Some(last) = all.pop() {
                all.push(attach(last, redirect, words));
            }
            Command::Sequence(all)
        }
        body => {
            Command::Redirected { body: Box::new(body), redirects: redirect.into_iter().collect() }
        }
    }
}

fn list(source: &mut Source<'_>, node: Node<'_>) -> Command {
    let is_or = children(node).iter().any(|it| it.1.kind() == "||");
    let mut parts = block(source, node).into_iter();
    match (parts.next(), parts.next()) {
        (Some(first), Some(second)) if is_or => Command::Either(Box::new(first), Box::new(second)),
        (first, second) => {
            Command::Sequence(first.into_iter().chain(second).chain(parts).collect())
        }
    }
}

fn function(source: &mut Source<'_>, node: Node<'_>) -> Command {
    let name = node.child_by_field_name("name").map(|it| source.text_of(it)).unwrap_or_default();
    let body = node.child_by_field_name("body").and_then(|it| command(source, it));
    let body = body.unwrap_or(Command::Sequence(Vec::new()));
    Command::Function { name: name.replace('\\', ""), body: Rc::new(body) }
}

fn for_loop(source: &mut Source<'_>, node: Node<'_>) -> Command {
    let variable = node.child_by_field_name("variable").map(|it| source.text_of(it));
    let variable = variable.unwrap_or_default().to_owned();
    let has_words = children(node).iter().any(|it| it.1.kind() == "in");
    let values = children(node).into_iter().filter(|it| it.0 == "value");
    let words: Vec<_> = values.map(|it| word::word(source, it.1)).collect();
    Command::For { variable, words: has_words.then_some(words), body: body_of(source, node) }
}

fn body_of(source: &mut Source<'_>, node: Node<'_>) -> Vec<Command> {
    node.child_by_field_name("body").map(|it| block(source, it)).unwrap_or_default()
}

fn field_commands(source: &mut Source<'_>, node: Node<'_>, field: &str) -> Vec<Command> {
    let nodes: Vec<_> =
        children(node).into_iter().filter(|it| it.0 == field).map(|it| it.1).collect();
    commands(source, &nodes)
}

fn branches(source: &mut Source<'_>, node: Node<'_>) -> Command {
    let (mut conditions, mut bodies) = (Vec::new(), Vec::new());
    conditions.push(field_commands(source, node, "condition"));
    let parts = children(node);
    let own = parts.iter().filter(|it| it.0 != "condition").map(|it| it.1);
    let is_clause = |it: &Node<'_>| matches!(it.kind(), "elif_clause" | "else_clause");
    let own: Vec<_> = own.filter(|it| !is_clause(it)).collect();
    bodies.push(commands(source, &own));
    for (_, clause) in parts.iter().filter(|it| is_clause(&it.1)) {
        let nodes: Vec<_> = children(*clause).into_iter().map(|it| it.1).collect();
        let then = nodes.iter().position(|it| it.kind() == "then").unwrap_or(0);
        let (condition, body) = nodes.split_at(then);
        conditions.push(commands(source, condition));
        bodies.push(commands(source, body));
    }
    Command::Branches { conditions, bodies }
}

fn case(source: &mut Source<'_>, node: Node<'_>) -> Command {
    let subject = node.child_by_field_name("value").map(|it| word::word(source, it));
    let items = children(node).into_iter().filter(|it| it.1.kind() == "case_item");
    let mut bodies = Vec::new();
    for (_, item) in items {
        let own = children(item).into_iter().filter(|it| it.0 != "value").map(|it| it.1);
        bodies.push(commands(source, &own.collect::<Vec<_>>()));
    }
    let conditions = vec![vec![Command::Words(subject.into_iter().collect())]];
    Command::Branches { conditions, bodies }
}

/// Reads what the grammar could not: words that stand side by side may be a command.
fn broken(source: &mut Source<'_>, node: Node<'_>) -> Command {
    let mut found = Vec::new();
    let mut loose = SimpleCommand::default();
    for (_, child) in children(node) {
        let is_word = matches!(
            child.kind(),
            "word"
                | "command_name"
                | "concatenation"
                | "string"
                | "raw_string"
                | "number"
                | "simple_expansion"
                | "expansion"
                | "ansi_c_string"
                | "command_substitution"
        );
        if is_word {
            let before = source.between(child.start_byte().saturating_sub(1), child.start_byte());
            let mut read = word::word(source, child);
            if before == "{" {
                read.pieces.insert(0, Piece::Bare("{".to_owned()));
            }
            loose.words.push(read);
        } else if child.is_named() {
            found.extend(command(source, child));
        }
    }
    if !loose.words.is_empty() {
        found.insert(0, Command::Simple(loose));
    }
    Command::Sequence(found)
}

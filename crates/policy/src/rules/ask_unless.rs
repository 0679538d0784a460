//! Programs whose every command changes something that others use, except those listed.

use crate::findings::Findings;
use crate::invocation::Invocation;
use crate::rule::{REMOTE_STATE, RUN_LATER, Rule, SERVICES, SYSTEM_PACKAGES, SYSTEM_SETTINGS};

struct Asks {
    program: &'static str,
    /// The first operands, or beginnings of the second ones, that only look or stay local.
    unless: &'static str,
    rule: &'static Rule,
}

const fn asks(program: &'static str, unless: &'static str, rule: &'static Rule) -> Asks {
    Asks { program, unless, rule }
}

const TABLE: &[Asks] = &[
    asks(
        "kubectl",
        "get describe logs version top explain api-resources api-versions diff cluster-info \
         config/view config/get config/current events wait kustomize completion exec port-forward options auth/can-i \
         rollout/status rollout/history",
        &REMOTE_STATE,
    ),
    asks("oc", "get describe logs version whoami status exec", &REMOTE_STATE),
    asks(
        "helm",
        "list ls status get template lint search show inspect history version create package dependency dep \
         repo/list repo/add repo/update env plugin/list completion pull fetch",
        &REMOTE_STATE,
    ),
    asks(
        "terraform",
        "init plan validate fmt output show version providers graph state/list state/show workspace/list \
         workspace/show console get test modules metadata",
        &REMOTE_STATE,
    ),
    asks(
        "tofu",
        "init plan validate fmt output show version providers graph state/list state/show",
        &REMOTE_STATE,
    ),
    asks("terragrunt", "init plan validate output show graph hclfmt", &REMOTE_STATE),
    asks(
        "systemctl",
        "status show cat list- is- get-default help show-environment --version poweroff reboot halt kexec",
        &SERVICES,
    ),
    asks("service", "--status-all", &SERVICES),
    asks("apt", "list search show policy depends rdepends changelog moo", &SYSTEM_PACKAGES),
    asks("apt-get", "download changelog source check", &SYSTEM_PACKAGES),
    asks("dpkg", "", &SYSTEM_PACKAGES),
    asks("rpm", "", &SYSTEM_PACKAGES),
    asks("yum", "list search info provides repolist check-update", &SYSTEM_PACKAGES),
    asks("dnf", "list search info provides repolist check-update repoquery", &SYSTEM_PACKAGES),
    asks("pacman", "", &SYSTEM_PACKAGES),
    asks("yay", "", &SYSTEM_PACKAGES),
    asks("zypper", "search info se if lr", &SYSTEM_PACKAGES),
    asks("apk", "info search list version policy", &SYSTEM_PACKAGES),
    asks("snap", "list find info version", &SYSTEM_PACKAGES),
    asks("flatpak", "list search info", &SYSTEM_PACKAGES),
    asks("port", "list search info installed", &SYSTEM_PACKAGES),
    asks(
        "brew",
        "list ls search info outdated deps uses doctor config leaves home desc install update upgrade tap bundle \
         services/list shellenv --prefix --version cat log",
        &SYSTEM_PACKAGES,
    ),
    asks(
        "gh",
        "pr/view pr/list pr/status pr/diff pr/checks pr/checkout pr/create pr/ready issue/list issue/view issue/status \
         run/list run/view run/watch run/download repo/view repo/clone repo/list release/list release/view release/download \
         workflow/list workflow/view auth/status search browse status gist/list gist/view label/list api \
         config/get config/list completion issue/create pr/comment issue/comment extension/list cache/list",
        &REMOTE_STATE,
    ),
    asks("timedatectl", "status show list-timezones timesync-status", &SYSTEM_SETTINGS),
    asks("crontab", "", &RUN_LATER),
];

/// Programs of clouds: `aws ec2 describe-instances`.
const CLOUDS: [&str; 8] =
    ["aws", "gcloud", "az", "doctl", "linode-cli", "oci", "ibmcloud", "aliyun"];
/// How verbs begin that only look.
const LOOKING: &[&str] = &[
    "describe",
    "list",
    "get-",
    "ls",
    "show",
    "help",
    "version",
    "info",
    "lookup",
    "search",
    "head-",
    "filter-",
    "tail",
    "presign",
    "validate",
    "wait",
    "batch-get",
    "read",
    "query",
    "scan",
    "estimate",
    "simulate",
];
/// Parts of looking verbs that give out credentials.
const SECRET: &[&str] = &[
    "secret",
    "password",
    "token",
    "access-key",
    "credentials",
    "kms",
    "parameter",
    "ssm",
    "keys",
];

pub(super) fn judge(invocation: &Invocation<'_>, findings: &mut Findings) {
    if CLOUDS.contains(&invocation.program) {
        judge_cloud(invocation, findings);
        return;
    }
    let Some(asks) = TABLE.iter().find(|it| it.program == invocation.program) else { return };
    let valued = [
        "-n",
        "--namespace",
        "--context",
        "--kubeconfig",
        "-R",
        "--repo",
        "-H",
        "-M",
        "-c",
        "-o",
        "--output",
        "-l",
        "-u",
        "-t",
    ];
    let operands =
        invocation.operands_beside(if asks.program == "crontab" { &[] } else { &valued });
    let only_looks = match invocation.program {
        "dpkg" => invocation.has(&[
            "-l",
            "-L",
            "-s",
            "-S",
            "--list",
            "--listfiles",
            "--status",
            "--search",
            "--print-architecture",
            "--get-selections",
            "-c",
            "-I",
            "--contents",
            "--info",
        ]),
        "rpm" => invocation.has(&["-q", "--query", "-V", "--verify", "--eval", "-E"]),
        "pacman" | "yay" => invocation.options().next().is_some_and(|it| {
            it.starts_with("-Q")
                || it.starts_with("-Ss")
                || it.starts_with("-Si")
                || it.starts_with("-F")
        }),
        "crontab" => invocation.has(&["-l"]) && operands.is_empty(),
        "service" => operands.get(1).is_some_and(|it| *it == "status"),
        "gh" if operands.first() == Some(&"api") => !writes_api(invocation),
        _ => operands.is_empty() && invocation.program != "crontab",
    };
    if only_looks || (is_listed(asks.unless, &operands) && operands.first() != Some(&"api")) {
        return;
    }
    findings.dangerous(asks.rule);
}

fn is_listed(unless: &str, operands: &[&str]) -> bool {
    let first = operands.first().copied().unwrap_or_default();
    let second = operands.get(1).copied().unwrap_or_default();
    unless.split_whitespace().any(|entry| match entry.split_once('/') {
        Some((one, two)) => one == first && second.starts_with(two),
        None if entry.ends_with('-') => first.starts_with(entry),
        None => entry == first,
    })
}

fn writes_api(invocation: &Invocation<'_>) -> bool {
    if invocation.has_word(&["graphql"]) {
        return invocation.arguments.iter().any(|it| it.contains("mutation"));
    }
    let method = invocation.value_of(&["-X", "--method"]);
    let has_fields = invocation.has(&["--field", "--raw-field", "--input", "-f", "-F"]);
    method.map_or(has_fields, |it| !it.eq_ignore_ascii_case("get"))
}

fn judge_cloud(invocation: &Invocation<'_>, findings: &mut Findings) {
    let operands = invocation.operands_beside(&[
        "--profile",
        "--region",
        "--output",
        "--project",
        "--query",
        "--format",
        "-o",
        "--resource-group",
        "-g",
    ]);
    let words: Vec<&str> = operands.iter().copied().take(5).collect();
    if words.is_empty()
        || words.first().is_some_and(|it| *it == "configure" && words.get(1) == Some(&"list"))
    {
        return;
    }
    let looks = words.iter().any(|word| LOOKING.iter().any(|it| word.starts_with(it)))
        || words
            .iter()
            .any(|it| matches!(*it, "get-caller-identity" | "get" | "current" | "account"))
        || words == ["config", "list"];
    let secret = words.iter().any(|word| SECRET.iter().any(|it| word.contains(it)));
    let copies_out =
        words.first() == Some(&"s3") && !matches!(words.get(1), Some(&"ls" | &"presign"));
    if !looks || secret || copies_out {
        findings.dangerous(&REMOTE_STATE);
    }
}

//! Connections to other machines.

use crate::field::HOLE;
use crate::findings::Findings;
use crate::invocation::Invocation;
use crate::rule::{METADATA, NETWORK_SHELL, REMOTE_SHELL, SENDS_DATA};

/// Hosts of metadata services.
const METADATA_HOSTS: [&str; 6] = [
    "169.254.169.254",
    "metadata.google.internal",
    "100.100.100.200",
    "fd00:ec2::254",
    "169.254.170.2",
    "[fd00:ec2",
];
/// Options of `curl` and `wget` with data in them.
const DATA: [&str; 16] = [
    "-d",
    "--data",
    "--data-raw",
    "--data-binary",
    "--data-urlencode",
    "--data-ascii",
    "--json",
    "-F",
    "--form",
    "-T",
    "--upload-file",
    "--post-data",
    "--post-file",
    "--body-data",
    "--body-file",
    "--form-string",
];
/// Short options of `curl` that take a value, so that what follows in a cluster is none.
const CURL_VALUED: &str = "AbcCDeEHKmoPQrtTuUwxXyYz";

pub(super) fn judge(invocation: &Invocation<'_>, findings: &mut Findings) {
    if invocation.arguments.iter().any(|it| METADATA_HOSTS.iter().any(|host| it.contains(host))) {
        findings.dangerous(&METADATA);
    }
    match invocation.program {
        "curl" | "wget" | "http" | "https" | "xh" | "httpie" | "wget2" => {
            judge_http(invocation, findings)
        }
        "nc" | "ncat" | "netcat" | "nc.traditional" | "nc.openbsd" => {
            judge_netcat(invocation, findings)
        }
        "socat" => findings.dangerous(&NETWORK_SHELL),
        "telnet" | "ftp" | "tftp" | "lftp" | "sftp" => findings.dangerous(&REMOTE_SHELL),
        "scp" => findings.dangerous(&REMOTE_SHELL),
        "rsync" => {
            let operands = invocation.operands();
            let remote = operands.iter().any(|it| it.contains(':') && !it.starts_with(['/', '.']));
            if remote || invocation.has(&["--rsh", "--rsync-path"]) {
                findings.dangerous(&REMOTE_SHELL);
            }
        }
        "ngrok" | "cloudflared" | "localtunnel" | "lt" | "bore" | "frpc" | "chisel" => {
            findings.dangerous(&NETWORK_SHELL);
        }
        "openssl" if invocation.has_word(&["s_client"]) => findings.dangerous(&NETWORK_SHELL),
        "dig" | "nslookup" | "host" if invocation.has_unknown() => findings.dangerous(&SENDS_DATA),
        _ => {}
    }
}

fn judge_http(invocation: &Invocation<'_>, findings: &mut Findings) {
    if goes_home(invocation) {
        return;
    }
    let method = invocation.value_of(&["-X", "--request", "--method"]).unwrap_or("GET");
    let is_get = ["GET", "HEAD", "OPTIONS"].iter().any(|it| method.eq_ignore_ascii_case(it));
    let as_get = invocation.has(&["--get"]) || invocation.arguments.iter().any(|it| it == "-G");
    let verbs = ["POST", "PUT", "PATCH", "DELETE"];
    let httpie = invocation.is(&["http", "https", "xh", "httpie"])
        && invocation.operands().iter().any(|it| verbs.contains(it));
    if !is_get || httpie || (has_data(invocation) && !as_get) {
        findings.dangerous(&SENDS_DATA);
    }
    // Output of commands inside an address goes to its host.
    let is_address = |it: &&str| it.contains("://");
    let sends = invocation
        .operands()
        .into_iter()
        .filter(is_address)
        .any(|it| it.contains(HOLE) && it.contains('?'));
    if sends {
        findings.dangerous(&SENDS_DATA);
    }
}

fn has_data(invocation: &Invocation<'_>) -> bool {
    let options: Vec<_> = invocation.options().collect();
    options.iter().any(|given| {
        let long = DATA.iter().any(|it| {
            it.starts_with("--") && (given == it || given.starts_with(&format!("{it}=")))
        });
        let cluster = given
            .strip_prefix('-')
            .filter(|it| !it.starts_with('-') && invocation.program == "curl");
        let short = cluster.is_some_and(|letters| {
            letters
                .chars()
                .find(|c| "dFT".contains(*c) || CURL_VALUED.contains(*c))
                .is_some_and(|c| "dFT".contains(c))
        });
        long || short
    })
}

/// Whether every address is one of this machine.
fn goes_home(invocation: &Invocation<'_>) -> bool {
    let local = ["localhost", "127.0.0.1", "[::1]", "0.0.0.0", "host.docker.internal"];
    let is_local = |it: &str| {
        let host = it.split("://").nth(1).unwrap_or(it);
        let host = host.split(['/', '?']).next().unwrap_or(host);
        let name = host.rsplit_once(':').map_or(host, |it| it.0);
        local.contains(&host) || local.contains(&name) || host.starts_with(':')
    };
    let mut addresses = invocation.operands().into_iter().filter(|it| {
        it.contains("://") || local.iter().any(|host| it.starts_with(host)) || it.starts_with(':')
    });
    match addresses.next() {
        Some(first) => is_local(first) && addresses.all(is_local),
        None => false,
    }
}

fn judge_netcat(invocation: &Invocation<'_>, findings: &mut Findings) {
    let only_looks = invocation.has(&["-z"]);
    if !only_looks && !invocation.has_word(&["-h"]) {
        findings.dangerous(&NETWORK_SHELL);
    }
}

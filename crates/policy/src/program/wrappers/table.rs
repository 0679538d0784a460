//! The wrappers.

use crate::rule::{CONTAINER_ESCAPE, REMOTE_SHELL, RUN_LATER, RUNS_AS_OTHER, Rule};

/// How a wrapper is given its command.
#[derive(Debug)]
pub(super) enum Style {
    /// As words.
    Words,
    /// As words that it joins to a text for a shell.
    Joined,
    /// Each word is a text for a shell.
    Each,
    /// A text for a shell, as the value of an option.
    OptionText(&'static [&'static str]),
}

/// A program that runs a command.
#[derive(Debug)]
pub(super) struct Wrapper {
    /// Its name, and words that come before its options.
    pub(super) words: &'static str,
    /// The short options that take a value.
    pub(super) short: &'static str,
    /// The long options that take a value.
    pub(super) long: &'static str,
    /// How many operands come before the command.
    pub(super) skip: usize,
    pub(super) style: Style,
    pub(super) rule: Option<&'static Rule>,
}

const fn wrapper(words: &'static str, short: &'static str, skip: usize) -> Wrapper {
    Wrapper { words, short, long: "", skip, style: Style::Words, rule: None }
}

const fn text_option(words: &'static str, names: &'static [&'static str]) -> Wrapper {
    Wrapper { style: Style::OptionText(names), ..wrapper(words, "", 0) }
}

const DOCKER_LONG: &str = "--name --network --net --volume --env --env-file --publish --workdir --user \
    --entrypoint --mount --platform --memory --cpus --gpus --hostname --label --add-host --pull --restart \
    --cap-add --cap-drop --device --pid --ipc --security-opt --ulimit --shm-size --tmpfs --dns --index --link \
    --log-driver --volumes-from --expose --cidfile --userns --runtime";
const KUBECTL_LONG: &str = "--namespace --container --context --kubeconfig --cluster";
const SSH_LETTERS: &str = "BbcDEeFIiJLlmOopQRSWw";

pub(super) const WRAPPERS: &[Wrapper] = &[
    Wrapper {
        long: "--user --group --prompt --chdir --host --role --type --close-from --command-timeout --other-user",
        rule: Some(&RUNS_AS_OTHER),
        ..wrapper("sudo", "ughpCcrtTDRU", 0)
    },
    Wrapper { rule: Some(&RUNS_AS_OTHER), ..wrapper("doas", "uC", 0) },
    Wrapper { long: "--user", rule: Some(&RUNS_AS_OTHER), ..wrapper("pkexec", "", 0) },
    Wrapper { long: "--user --group", rule: Some(&RUNS_AS_OTHER), ..wrapper("run0", "u", 0) },
    Wrapper { rule: Some(&RUNS_AS_OTHER), ..wrapper("gosu", "", 1) },
    Wrapper { rule: Some(&RUNS_AS_OTHER), ..wrapper("su-exec", "", 1) },
    Wrapper {
        rule: Some(&RUNS_AS_OTHER),
        ..text_option("su", &["-c", "--command", "--session-command"])
    },
    Wrapper { long: "--user --group", rule: Some(&RUNS_AS_OTHER), ..wrapper("runuser", "ugGs", 0) },
    Wrapper { rule: Some(&RUNS_AS_OTHER), ..wrapper("setpriv", "", 0) },
    wrapper("nice", "n", 0),
    wrapper("ionice", "cnpPut", 0),
    Wrapper { long: "--signal --kill-after", ..wrapper("timeout", "sk", 1) },
    Wrapper { long: "--signal --kill-after", ..wrapper("gtimeout", "sk", 1) },
    Wrapper { long: "--input --output --error", ..wrapper("stdbuf", "ioe", 0) },
    wrapper("command", "", 0),
    wrapper("builtin", "", 0),
    wrapper("exec", "a", 0),
    wrapper("coproc", "", 0),
    wrapper("nohup", "", 0),
    wrapper("time", "fo", 0),
    wrapper("gtime", "fo", 0),
    wrapper("setsid", "", 0),
    wrapper("chronic", "", 0),
    wrapper("unbuffer", "", 0),
    wrapper("nocache", "", 0),
    wrapper("eatmydata", "", 0),
    wrapper("caffeinate", "tw", 0),
    wrapper("rlwrap", "", 0),
    wrapper("proxychains", "f", 0),
    wrapper("proxychains4", "f", 0),
    wrapper("torsocks", "", 0),
    wrapper("firejail", "", 0),
    wrapper("fakeroot", "", 0),
    wrapper("faketime", "f", 1),
    wrapper("taskset", "", 1),
    wrapper("chrt", "", 1),
    wrapper("numactl", "Nmip", 0),
    wrapper("cpulimit", "lp", 0),
    wrapper("strace", "abeEIkoOpPsSuUX", 0),
    wrapper("ltrace", "aeFlnopsuwX", 0),
    wrapper("valgrind", "", 0),
    wrapper("perf stat", "erCpx", 0),
    wrapper("perf record", "eFoCpg", 0),
    wrapper("gdb", "x", 0),
    wrapper("setarch", "", 1),
    wrapper("linux32", "", 0),
    wrapper("linux64", "", 0),
    wrapper("prlimit", "", 0),
    wrapper("dbus-run-session", "", 0),
    wrapper("xvfb-run", "nesfp", 0),
    wrapper("start-stop-daemon", "", 0),
    Wrapper { rule: Some(&CONTAINER_ESCAPE), ..wrapper("chroot", "", 1) },
    Wrapper { rule: Some(&CONTAINER_ESCAPE), ..wrapper("nsenter", "tSG", 0) },
    Wrapper { rule: Some(&CONTAINER_ESCAPE), ..wrapper("unshare", "SGRw", 0) },
    Wrapper {
        rule: Some(&RUN_LATER),
        long: "--unit --property --on-calendar --on-active --description",
        ..wrapper("systemd-run", "pu", 0)
    },
    Wrapper { style: Style::Joined, long: "--interval", ..wrapper("watch", "n", 0) },
    Wrapper { ..wrapper("entr", "", 0) },
    Wrapper { long: "--exts --watch --ignore", ..wrapper("watchexec", "ewid", 0) },
    Wrapper {
        style: Style::Each,
        long: "--warmup --runs --export-json --export-markdown --prepare --min-runs",
        ..wrapper("hyperfine", "wrpmM", 0)
    },
    Wrapper { style: Style::Each, long: "--names --prefix", ..wrapper("concurrently", "np", 0) },
    text_option("script", &["-c", "--command"]),
    text_option("nodemon", &["--exec", "-x"]),
    text_option("nix-shell", &["--run", "--command"]),
    text_option("vagrant ssh", &["-c", "--command"]),
    text_option("cargo watch", &["-s", "--shell"]),
    Wrapper { style: Style::Joined, ..wrapper("flock", "wE", 1) },
    Wrapper { style: Style::Joined, ..wrapper("tmux new-session", "cdefFnstxy", 0) },
    Wrapper { style: Style::Joined, ..wrapper("tmux new", "cefFnstxy", 0) },
    Wrapper { style: Style::Joined, ..wrapper("tmux send-keys", "tN", 0) },
    Wrapper { style: Style::Joined, ..wrapper("tmux split-window", "tlpcF", 0) },
    wrapper("screen", "cehpsSTtX", 0),
    Wrapper { style: Style::Joined, rule: Some(&REMOTE_SHELL), ..wrapper("ssh", SSH_LETTERS, 1) },
    Wrapper { style: Style::Joined, rule: Some(&REMOTE_SHELL), ..wrapper("mosh", "", 1) },
    Wrapper { style: Style::Joined, rule: Some(&REMOTE_SHELL), ..wrapper("sshpass", "pfe", 0) },
    Wrapper { long: DOCKER_LONG, ..wrapper("docker exec", "euw", 1) },
    Wrapper { long: DOCKER_LONG, ..wrapper("docker run", "aehlmpuvwc", 1) },
    Wrapper { long: DOCKER_LONG, ..wrapper("docker compose exec", "euw", 1) },
    Wrapper { long: DOCKER_LONG, ..wrapper("docker compose run", "eupvw", 1) },
    Wrapper { long: DOCKER_LONG, ..wrapper("docker-compose exec", "euw", 1) },
    Wrapper { long: DOCKER_LONG, ..wrapper("docker-compose run", "eupvw", 1) },
    Wrapper { long: DOCKER_LONG, ..wrapper("docker container exec", "euw", 1) },
    Wrapper { long: DOCKER_LONG, ..wrapper("docker container run", "aehlmpuvwc", 1) },
    Wrapper { long: DOCKER_LONG, ..wrapper("podman exec", "euw", 1) },
    Wrapper { long: DOCKER_LONG, ..wrapper("podman run", "aehlmpuvwc", 1) },
    Wrapper { long: KUBECTL_LONG, ..wrapper("kubectl exec", "cn", 1) },
    Wrapper { long: KUBECTL_LONG, ..wrapper("oc exec", "cn", 1) },
    wrapper("lxc exec", "", 1),
    wrapper("distrobox enter", "n", 0),
    wrapper("toolbox run", "c", 0),
    wrapper("npx", "pc", 0),
    wrapper("pnpx", "", 0),
    wrapper("bunx", "", 0),
    wrapper("uvx", "", 0),
    wrapper("pipx run", "", 0),
    wrapper("npm exec", "w", 0),
    wrapper("pnpm exec", "", 0),
    wrapper("pnpm dlx", "", 0),
    wrapper("yarn dlx", "", 0),
    wrapper("yarn exec", "", 0),
    Wrapper {
        long: "--with --python --extra --group --env-file --project --directory",
        ..wrapper("uv run", "p", 0)
    },
    wrapper("poetry run", "", 0),
    wrapper("pdm run", "", 0),
    wrapper("hatch run", "", 0),
    wrapper("pipenv run", "", 0),
    wrapper("rye run", "", 0),
    wrapper("pixi run", "e", 0),
    wrapper("conda run", "np", 0),
    wrapper("mamba run", "np", 0),
    wrapper("bundle exec", "", 0),
    wrapper("rbenv exec", "", 0),
    wrapper("pyenv exec", "", 0),
    wrapper("direnv exec", "", 1),
    wrapper("mise exec", "", 0),
    wrapper("asdf exec", "", 0),
    wrapper("dotenv", "efcp", 0),
    wrapper("aws-vault exec", "d", 1),
    wrapper("op run", "", 0),
    wrapper("doppler run", "pc", 0),
    wrapper("infisical run", "", 0),
    wrapper("rustup run", "", 1),
    wrapper("opam exec", "", 0),
    wrapper("stack exec", "", 0),
    wrapper("cabal exec", "", 0),
];

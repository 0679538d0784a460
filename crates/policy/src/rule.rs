//! The rules by name.

/// A rule: its name for people and settings, and what a command does that it matches.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) name: &'static str,
    pub(crate) reason: &'static str,
}

macro_rules! rules {
    ($($id:ident = $name:literal, $reason:literal;)*) => {
        $(pub(crate) const $id: Rule = Rule { name: $name, reason: $reason };)*
    };
}

rules! {
    WIPE = "wipe", "recursive delete of a system directory or the home directory";
    SYSTEM_MODES = "system-modes", "changes the rights of a whole system directory or the home directory";
    RAW_DEVICE = "raw-device", "writes to a raw device";
    FILE_SYSTEM = "make-file-system", "makes a file system or partition on a device";
    KILL_ALL = "kill-all", "ends every process";
    POWER = "power", "turns the machine off or restarts it";
    FORK_BOMB = "fork-bomb", "starts processes without end";

    UNREADABLE = "unreadable", "it cannot be read as a shell command";
    TOO_LONG = "too-long", "too long to judge";
    UNKNOWN_COMMAND = "unknown-command", "which program it runs cannot be told";
    UNKNOWN_CODE = "unknown-code", "it runs a text that cannot be told";
    PIPE_TO_SHELL = "pipe-to-shell", "it runs what it fetches or decodes as a program";
    INLINE_CODE = "inline-code", "its inline program can run commands, delete, or hides what it does";
    RUNS_AS_OTHER = "runs-as-other-user", "it runs with the rights of another user";
    RUN_LATER = "runs-later", "it makes a command run later, outside of this task";

    RECURSIVE_DELETE = "recursive-delete", "recursive delete";
    DELETE_MANY = "delete-many", "deletes files that cannot be told one by one";
    DELETE_OUTSIDE = "delete-outside", "deletes outside of the working directory";
    OVERWRITE = "overwrite", "destroys the content of files";
    DEVICE_ACCESS = "device-access", "reads or changes a disk device";
    MOVE_SYSTEM = "change-system-files", "changes files of the system";
    START_FILES = "write-start-files", "writes a file that other programs run or obey";
    INSTRUCTIONS = "write-instructions", "writes a file that agents of later sessions obey";
    CREDENTIALS = "credentials", "touches files with keys or passwords";
    ENVIRONMENT = "code-in-environment", "sets a variable that makes other programs run code";
    OPEN_MODES = "open-modes", "gives rights to everybody, or the rights of the owner to who runs it";
    OWNERSHIP = "ownership", "changes owners of files";

    KILL_BY_NAME = "kill-by-name", "ends processes by name";
    KILL_UNKNOWN = "kill-unknown", "ends processes that cannot be told";
    SERVICES = "services", "changes services of the system";
    SYSTEM_SETTINGS = "system-settings", "changes settings of the system";
    SYSTEM_PACKAGES = "system-packages", "changes packages of the system";
    PACKAGE_REMOVAL = "package-removal", "removes packages";

    GIT_REMOTE = "git-rewrites-remote", "rewrites or deletes remote history";
    GIT_DISCARD = "git-discards-changes", "discards changes that are nowhere else";
    GIT_DELETE = "git-deletes-refs", "deletes branches, tags, stashes or history";
    GIT_CONFIG = "git-runs-code", "makes git run another program";
    REMOTE_STATE = "remote-state", "changes what others use, under your name";
    PUBLISH = "publish", "publishes";
    CONTAINERS = "containers", "stops or deletes containers, images or volumes";
    CONTAINER_ESCAPE = "container-rights", "gives a container rights on this machine";
    DATABASE = "database", "deletes or changes data of a database";

    SENDS_DATA = "sends-data", "sends data to another host";
    REMOTE_SHELL = "remote-shell", "connects to another machine";
    METADATA = "cloud-metadata", "asks a cloud's metadata service, which gives out credentials";
    NETWORK_SHELL = "network-shell", "connects a program to the network";
    HISTORY = "hides-traces", "deletes records of what was run";
}

//! Raw devices, file systems, and the power of the machine.

use crate::field::HOLE;
use crate::findings::Findings;
use crate::invocation::Invocation;
use crate::paths::is_raw_device;
use crate::rule::{DEVICE_ACCESS, FILE_SYSTEM, OVERWRITE, POWER, RAW_DEVICE};

/// Programs that make or wipe a file system or partition table on each device that they are given.
const FORMATTERS: [&str; 16] = [
    "mke2fs",
    "mkswap",
    "newfs",
    "mkdosfs",
    "mkntfs",
    "mkreiserfs",
    "fdisk",
    "sfdisk",
    "cfdisk",
    "gdisk",
    "sgdisk",
    "parted",
    "badblocks",
    "nwipe",
    "scrub",
    "hdparm",
];
/// Programs that overwrite what they are given.
const WRITERS: [&str; 6] = ["shred", "blkdiscard", "tee", "truncate", "wipe", "fallocate"];
const POWER_ACTIONS: [&str; 10] = [
    "poweroff",
    "reboot",
    "halt",
    "kexec",
    "suspend",
    "hibernate",
    "hybrid-sleep",
    "soft-reboot",
    "emergency",
    "rescue",
];

pub(super) fn judge(invocation: &Invocation<'_>, findings: &mut Findings) {
    judge_power(invocation, findings);
    let device = invocation.operands().into_iter().find(|it| is_raw_device(it));
    match invocation.program {
        "dd" => judge_dd(invocation, findings),
        program if program.starts_with("mkfs") => judge_mkfs(invocation, device, findings),
        program if FORMATTERS.contains(&program) => {
            let looks = match program {
                "hdparm" => !invocation
                    .options()
                    .any(|it| it.starts_with("--security") || it.starts_with("--trim")),
                "badblocks" => !invocation.has(&["-w"]),
                "parted" => invocation.has_word(&["print"]) || invocation.operands().len() < 2,
                _ => invocation.has(&["-l", "--list", "-p", "--print", "-d", "--dump", "-v"]),
            };
            match device {
                Some(device) if !looks => {
                    findings.hardline(
                        &FILE_SYSTEM,
                        format!("changes the partitions or content of {device}"),
                    );
                }
                _ if !looks => findings.dangerous(&DEVICE_ACCESS),
                _ => {}
            }
        }
        program if WRITERS.contains(&program) => match device {
            Some(device) => findings.hardline(&RAW_DEVICE, format!("overwrites {device}")),
            None if program == "shred" => findings.dangerous(&OVERWRITE),
            None => {}
        },
        "wipefs" | "pvremove" | "vgremove" | "lvremove" | "pvcreate" | "mdadm" | "zpool"
        | "nvme" | "cryptsetup" | "dmsetup" | "losetup" | "mount" | "resize2fs" | "fsck"
        | "tune2fs" | "partx" | "partprobe" => {
            judge_tool(invocation, device, findings);
        }
        "cp" | "mv" | "install" | "rsync" | "pv" | "ddrescue" | "partclone" | "cpio" => {
            let target = invocation.operands().last().copied().filter(|it| is_raw_device(it));
            if let Some(device) = target {
                findings.hardline(&RAW_DEVICE, format!("writes to {device}"));
            } else if device.is_some() {
                findings.dangerous(&DEVICE_ACCESS);
            }
        }
        "cat" | "head" | "strings" | "xxd" | "hexdump" | "od" if device.is_some() => {
            findings.dangerous(&DEVICE_ACCESS);
        }
        _ => {}
    }
}

fn judge_mkfs(invocation: &Invocation<'_>, device: Option<&str>, findings: &mut Findings) {
    match device {
        Some(device) => findings.hardline(&FILE_SYSTEM, format!("makes a file system on {device}")),
        None if invocation
            .arguments
            .iter()
            .any(|it| it.starts_with("/dev/") || it.contains(HOLE)) =>
        {
            findings.hardline(&FILE_SYSTEM, FILE_SYSTEM.reason);
        }
        None if !invocation.arguments.is_empty() => findings.dangerous(&DEVICE_ACCESS),
        None => {}
    }
}

fn judge_dd(invocation: &Invocation<'_>, findings: &mut Findings) {
    let target = invocation.arguments.iter().find_map(|it| it.strip_prefix("of="));
    match target {
        Some(device) if is_raw_device(device) => {
            findings.hardline(&RAW_DEVICE, format!("writes to {device}"));
        }
        Some("/dev/null" | "/dev/stdout" | "/dev/zero") => {}
        Some(_) => findings.dangerous(&OVERWRITE),
        None if invocation.has_unknown() => findings.dangerous(&OVERWRITE),
        None => {}
    }
    if invocation.arguments.iter().filter_map(|it| it.strip_prefix("if=")).any(is_raw_device) {
        findings.dangerous(&DEVICE_ACCESS);
    }
}

fn judge_tool(invocation: &Invocation<'_>, device: Option<&str>, findings: &mut Findings) {
    let wipes = match invocation.program {
        "wipefs" => invocation.has(&["-a", "--all", "-o", "--offset"]),
        "cryptsetup" => invocation.has_word(&["luksFormat", "luksErase", "erase", "reencrypt"]),
        "nvme" => invocation.has_word(&["format", "sanitize", "write-zeroes"]),
        "mdadm" => invocation.has(&["--zero-superblock"]),
        _ => false,
    };
    let looks = match invocation.program {
        "wipefs" => !wipes,
        "nvme" => invocation.has_word(&["list", "smart-log", "id-ctrl"]),
        "mdadm" => invocation.has(&["--detail", "--examine", "--query"]),
        "zpool" => invocation.has_word(&["list", "status", "get", "iostat"]),
        "mount" => invocation.arguments.is_empty() || invocation.has(&["-l"]),
        "losetup" => invocation.arguments.is_empty() || invocation.has(&["-a", "-l", "--list"]),
        "dmsetup" => invocation.has_word(&["ls", "info", "status"]),
        _ => invocation.arguments.is_empty(),
    };
    match device {
        Some(device) if wipes => findings.hardline(&RAW_DEVICE, format!("wipes {device}")),
        _ if !looks => findings.dangerous(&DEVICE_ACCESS),
        _ => {}
    }
}

fn judge_power(invocation: &Invocation<'_>, findings: &mut Findings) {
    let ends = match invocation.program {
        "shutdown" => !invocation.has_word(&["-c", "--show", "--help"]),
        "reboot" | "halt" | "poweroff" => !invocation.has_word(&["--help", "-w", "--wtmp-only"]),
        "init" | "telinit" => invocation.has_word(&["0", "6", "1", "S", "s"]),
        "systemctl" | "loginctl" => {
            let targets = ["poweroff.target", "reboot.target", "halt.target", "rescue.target"];
            let isolates = invocation.has_word(&["isolate", "start"]);
            let operands =
                invocation.operands_beside(&["-H", "-M", "--host", "-t", "-p", "-n", "-u"]);
            operands.first().is_some_and(|it| POWER_ACTIONS.contains(it))
                || isolates && invocation.has_word(&targets)
        }
        "kexec" => invocation.has(&["-e", "--exec"]),
        "busctl" | "dbus-send" | "gdbus" | "qdbus" => {
            let calls = ["PowerOff", "Reboot", "Halt", "Suspend", "Shutdown", "KExec"];
            invocation.arguments.iter().any(|it| calls.iter().any(|call| it.ends_with(call)))
        }
        "osascript" => {
            invocation.arguments.iter().any(|it| it.contains("shut down") || it.contains("restart"))
        }
        "ipmitool" => {
            invocation.has_word(&["off", "reset", "cycle"])
                && invocation.has_word(&["power", "chassis"])
        }
        "xfce4-session-logout" => true,
        _ => false,
    };
    if ends {
        findings.hardline(&POWER, "turns the machine off or restarts it");
    }
}

//! Standard output and standard error: who gets what, and in which dress.

use std::fs::File;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use crate::support::{Answer, World};
use crate::terminal::Terminal;

const SIGPIPE: i32 = 13;

#[test]
fn a_closed_pipe_is_quiet() {
    let world = World::set_up();
    world.acquire("r --ttl 1h");
    for words in ["ls", "ls --json", "show r", "history r", "man", "completions bash", "migrate --print"] {
        let (reader, writer) = nix::unistd::pipe().unwrap();
        drop(reader);
        let mut command = world.command(words.split(' '));
        let output = command.stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.signal(), Some(SIGPIPE), "{words}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{words}");
    }
    for words in ["--help", "acquire --help", "--version"] {
        let (reader, writer) = nix::unistd::pipe().unwrap();
        drop(reader);
        let mut command = world.command(words.split(' '));
        let output = command.stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{words}");
    }
}

#[test]
fn a_full_disk_is_said() {
    let world = World::set_up();
    let mut command = world.command(["ls"]);
    let full = File::options().write(true).open("/dev/full").unwrap();
    Answer::of(command.stdout(full)).fails(125, &["cannot write to standard output", "No space left"]);
    for words in ["--help", "run --help", "--version"] {
        let mut command = world.command(words.split(' '));
        let full = File::options().write(true).open("/dev/full").unwrap();
        Answer::of(command.stdout(full)).fails(125, &["cannot write to standard output", "No space left"]);
    }
}

/// A grant that nobody is told of would be held in vain.
#[test]
fn a_closed_output_is_said_and_nothing_stays_held() {
    let world = World::set_up();
    let closed = |words: &str| {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", &format!("exec \"$0\" {words} >&-"), env!("CARGO_BIN_EXE_lease")]);
        Answer::of(shell.env_clear().env("LEASE_STORE", world.url()))
    };
    for words in ["ls", "acquire r --ttl 1h", "acquire r --ttl 1h --json"] {
        closed(words).fails(125, &["cannot write to standard output: Bad file descriptor"]);
    }
    assert_eq!(world.json("show r")["state"], "withdrawn");
    assert_eq!(closed("run r -- true").code, Some(0), "what it says is the command's own");
}

#[test]
fn errors_go_to_standard_error_also_where_that_is_closed() {
    let world = World::set_up();
    let answer = world.lease("revoke r --yes");
    assert_eq!(answer.out, "");
    let (reader, writer) = nix::unistd::pipe().unwrap();
    drop(reader);
    let mut command = world.command(["revoke", "r", "--yes"]);
    assert_eq!(command.stderr(writer).status().unwrap().code(), Some(1));
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    let world = World::new();
    world.acquire("r --ttl 1h");
    let piped = Answer::of(world.command(["ls"]).env("TERM", "xterm")).ok();
    assert!(!piped.out.contains('\x1b'), "{piped:?}");
    let on_terminal = |name: &str, value: &str| {
        let mut command = world.command(["ls"]);
        // What the terminal helper sets comes after this.
        command.env(name, value);
        let mut terminal = Terminal::spawn(command);
        assert_eq!(terminal.end(), Some(0));
        terminal.seen().to_owned()
    };
    let coloured = on_terminal("LANG", "C");
    assert!(coloured.contains("\x1b[32mheld\x1b[0m"), "{coloured:?}");
    assert!(on_terminal("NO_COLOR", "").contains('\x1b'), "an empty NO_COLOR is none");
    let plain = on_terminal("NO_COLOR", "1");
    assert!(plain.contains("held") && !plain.contains('\x1b'), "{plain:?}");
}

#[test]
fn what_others_wrote_does_not_act_on_this_terminal() {
    let world = World::new();
    let name = "r\x1b[2J\nforged row";
    Answer::of(&mut world.command(["acquire", "--ttl", "1h", "--label", "me\r\x1b]0;x\x07", "--", name]))
        .ok();
    let said = |words: &[&str]| {
        let answer = Answer::of(&mut world.command(words));
        let all = format!("{}{}", answer.out, answer.err);
        assert!(!all.chars().any(|c| c.is_control() && c != '\n'), "{all:?}");
        all
    };
    let table = said(&["ls"]);
    assert!(table.contains("r\\u{1b}[2J\\nforged row  me\\r\\u{1b}]0;x\\u{7}"), "{table:?}");
    assert_eq!(table.lines().count(), 2);
    for words in [["show", name], ["history", name], ["check", name], ["revoke", name]] {
        said(&words);
    }
    said(&["acquire", name, "--ttl", "1h"]);
    for options in [["-n"].as_slice(), &["-w", "1ms"], &["--skip-if-held", "--max-hold", "1ms"]] {
        let all = said(&[&["run"], options, &[name, "--", "true"]].concat());
        assert!(
            all.contains("r\\u{1b}[2J\\nforged row: ") && all.contains("me\\r\\u{1b}]0;x\\u{7}"),
            "{all:?}"
        );
    }
    said(&["run", "s", "--", "no\x1b[2J"]);
    said(&["ls", "--store", "\x1b[2J"]);
    said(&["ls", "--store", "sqlite:\x1b[2J/\n/x"]);
    said(&["revoke", name, "--yes", "--reason", "\x1b[2J"]);
    said(&["history", name]);
    assert_eq!(world.json("ls")["resources"][0]["resource"], name);
}

#[test]
fn a_wrong_word_does_not_act_on_the_terminal() {
    let world = World::new();
    for words in [
        vec!["acquire", "--ttl", "\x1b]0;x\x07", "r"],
        vec!["frob\x1b[2J"],
        vec!["ls", "--\x1b[2J"],
        vec!["ls", "a", "\x1b[2J"],
        vec!["history", "r", "--limit", "\u{202e}1"],
    ] {
        let mut terminal = Terminal::spawn(world.command(&words));
        assert_eq!(terminal.end(), Some(64), "{words:?}");
        let seen = terminal.seen().replace("\r\n", "\n");
        assert!(seen.contains("\\u{"), "{seen:?}");
        assert!(!seen.chars().any(|c| c != '\n' && (c.is_control() || c == '\u{202e}')), "{seen:?}");
    }
}

#[test]
fn a_long_name_widens_no_row_but_its_own_on_a_terminal() {
    let world = World::new();
    world.acquire("short --ttl 1h --label me");
    let long = "n".repeat(255);
    world.acquire(&format!("{long} --ttl 1h --label me"));
    let mut terminal = Terminal::spawn(world.command(["ls"]));
    assert_eq!(terminal.end(), Some(0));
    let seen = terminal.seen();
    assert!(seen.contains(&long), "{seen}");
    for line in seen.lines().filter(|line| !line.contains(&long)) {
        let plain: String =
            line.split("\x1b[").map(|part| part.split_once('m').map_or(part, |(_, text)| text)).collect();
        assert!(plain.trim_end().len() <= usize::from(crate::terminal::COLUMNS), "{plain:?}");
    }
    // A program that reads it finds each column where it is in all other rows.
    let piped = world.lease("ls").ok().out;
    let ends: Vec<Option<usize>> = piped.lines().skip(1).map(|line| line.find("  me  ")).collect();
    assert_eq!(ends, [Some(255), Some(255)]);
}

#[test]
fn completions_are_for_every_shell() {
    let world = World::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = world.lease(&format!("completions {shell}")).ok().out;
        for word in ["acquire", "revoke", "held-max"] {
            assert!(script.contains(word), "no {word} for {shell}");
        }
    }
}

#[test]
fn the_manual_names_every_exit_code_and_variable() {
    let world = World::new();
    let page = world.lease("man").ok().out;
    for code in ["0", "1", "64", "69", "75", "77", "78", "79", "124", "125", "126", "127"] {
        assert!(page.contains(&format!(".TP\n\\fB{code}\\fR\n")), "no {code}");
    }
    for word in ["LEASE_STORE_FILE", "XDG_STATE_HOME", "NO_COLOR"] {
        assert!(page.contains(&word.replace('_', "\\_")) || page.contains(word), "no {word}");
    }
    let page = world.lease("man run").ok().out;
    let synopsis =
        page.split(".SH ").find(|section| section.starts_with("SYNOPSIS")).unwrap().replace("\\fR", "");
    for words in [
        "\\fBlease run [\\fB\\-\\-store \\fIURL] [\\fB\\-\\-ttl \\fIDURATION] [\\fB\\-n|\\fB\\-\\-no\\-wait]",
        "\\fIRESOURCE \\fB\\-\\- \\fICOMMAND...",
    ] {
        assert!(synopsis.contains(words), "no {words:?} in {synopsis}");
    }
    let page = world.lease("man revoke").ok().out;
    assert!(page.contains(".TH lease-revoke") && page.contains("reason"), "{page}");
}

#[test]
fn version_is_the_workspace_s() {
    let mut out = String::new();
    let mut child = World::new().command(["--version"]).stdout(Stdio::piped()).spawn().unwrap();
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(out, format!("lease {}\n", env!("CARGO_PKG_VERSION")));
}

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{call, toolbox};
use crate::tools::Toolbox;

/// A root with some files in it, and secrets beside it.
fn world() -> (TempDir, Toolbox) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    for folder in ["root/src/deep", "root/.git", "outside"] {
        fs::create_dir_all(dir.path().join(folder)).unwrap();
    }
    for (file, text) in [
        ("root/readme.md", "one\ntwo\nthree\n"),
        ("root/src/main.rs", "fn main() {}\n// needle\n"),
        ("root/src/deep/lib.rs", "needle and needle"),
        ("root/.git/config", "needle"),
        ("root/empty", ""),
        ("outside/secret", "needle: secret"),
        ("root-not", "needle: not the root"),
    ] {
        fs::write(dir.path().join(file), text).unwrap();
    }
    fs::write(root.join("binary"), b"needle\0").unwrap();
    fs::write(root.join("latin"), b"caf\xe9 needle\n").unwrap();
    for (target, link) in [
        ("../outside/secret", "to_file"),
        ("../outside", "to_folder"),
        ("/etc/passwd", "to_absolute"),
        ("src", "to_inside"),
        ("src/main.rs", "to_inside_file"),
        ("circle", "circle"),
        ("/proc/self/root", "to_magic"),
    ] {
        symlink(target, root.join(link)).unwrap();
    }
    let toolbox = toolbox(&format!("[files]\nroot = {root:?}\nmax_bytes = 100000"));
    (dir, toolbox)
}

async fn call_tool(toolbox: &Toolbox, tool: &str, arguments: Value) -> Result<String, String> {
    toolbox.call(tool, call(&arguments)).await
}

#[tokio::test]
async fn a_file_is_read_whole_or_in_parts() {
    let (dir, toolbox) = world();
    let read = async |arguments: Value| call_tool(&toolbox, "read_file", arguments).await;
    assert_eq!(read(json!({ "path": "readme.md" })).await.unwrap(), "one\ntwo\nthree\n");
    assert_eq!(
        read(json!({ "path": "./src//main.rs", "offset": null })).await.unwrap(),
        "fn main() {}\n// needle\n"
    );
    let part = read(json!({ "path": "readme.md", "offset": 2, "limit": 1 })).await.unwrap();
    assert_eq!(part, "two\n[lines 2 to 2 of 3; continue with offset 3]");
    let rest = read(json!({ "path": "readme.md", "offset": 3 })).await.unwrap();
    assert_eq!(rest, "three\n[lines 3 to 3 of 3]");
    assert!(
        read(json!({ "path": "readme.md", "offset": 4 }))
            .await
            .unwrap_err()
            .contains("only 3 lines")
    );
    assert_eq!(read(json!({ "path": "empty" })).await.unwrap(), "[the file is empty]");
    let lossy = read(json!({ "path": "latin" })).await.unwrap();
    assert_eq!(lossy, "caf\u{fffd} needle\n[some bytes are not UTF-8, and are shown as \u{fffd}]");

    let root = dir.path().join("root");
    fs::write(root.join("wide"), "ä".repeat(50_000)).unwrap();
    let wide = read(json!({ "path": "wide" })).await.unwrap();
    assert!(
        wide.ends_with("\n[line 1 is 100000 bytes long, and truncated]") && wide.len() <= 65536,
        "{}",
        wide.len()
    );
    fs::write(root.join("long"), "0123456789abcde\n".repeat(10_000)).unwrap();
    let long = read(json!({ "path": "long", "limit": 100_000 })).await.unwrap();
    assert!(
        long.ends_with("[lines 1 to 4071 of 6250; continue with offset 4072]"),
        "{}",
        &long[long.len() - 80..]
    );
    let end = read(json!({ "path": "long", "offset": 6000 })).await.unwrap();
    assert!(end.ends_with("too long to be read to its end]"), "{}", &end[end.len() - 80..]);
}

#[tokio::test]
async fn nothing_outside_of_the_root_is_read_by_whatever_way() {
    let (_dir, toolbox) = world();
    for path in [
        "..",
        "../outside/secret",
        "../root-not",
        "src/../../outside/secret",
        "/etc/passwd",
        "/",
        "to_file",
        "to_folder/secret",
        "to_folder",
        "to_absolute",
        "to_magic/etc/passwd",
        "circle",
        "src/main.rs/x",
        "none",
        "src/\u{202e}",
        "~/x",
        "//etc/passwd",
    ] {
        for tool in ["read_file", "list_files", "search_files"] {
            let mut arguments = json!({ "path": path });
            if tool == "search_files" {
                arguments["pattern"] = json!("e");
            }
            let answer = call_tool(&toolbox, tool, arguments).await;
            assert!(answer.is_err(), "{tool} {path}: {answer:?}");
        }
    }
    let inside = call_tool(&toolbox, "read_file", json!({ "path": "to_inside/main.rs" })).await;
    assert!(inside.unwrap().contains("needle"), "a link that stays inside is followed");
    let found = call_tool(&toolbox, "search_files", json!({ "pattern": "needle" })).await.unwrap();
    assert!(!found.contains("secret") && !found.contains("not the root"), "{found}");
}

#[tokio::test]
async fn a_folder_that_becomes_a_link_while_it_is_read_leads_nowhere() {
    let (dir, toolbox) = world();
    let root = dir.path().join("root");
    fs::write(root.join("src/secret"), "harmless").unwrap();
    symlink("../outside", root.join("other")).unwrap();
    let (folder, link, aside) = (root.join("src"), root.join("other"), root.join("aside"));
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stopped = stop.clone();
    let swapping = std::thread::spawn(move || {
        while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
            let _ = fs::rename(&folder, &aside).and_then(|()| fs::rename(&link, &folder));
            let _ = fs::rename(&folder, &link).and_then(|()| fs::rename(&aside, &folder));
        }
    });
    let mut read = 0;
    for _ in 0..2000 {
        if let Ok(text) = call_tool(&toolbox, "read_file", json!({ "path": "src/secret" })).await {
            assert_eq!(text, "harmless");
            read += 1;
        }
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    swapping.join().unwrap();
    assert!(read > 0);
}

#[tokio::test]
async fn a_file_that_is_no_text_is_refused_at_once() {
    let (dir, toolbox) = world();
    let fifo = dir.path().join("root/fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("root/socket")).unwrap();
    for (path, why) in [
        ("fifo", "not a regular file"),
        ("socket", "not a regular file"),
        ("src", "a folder"),
        ("binary", "a binary file"),
        ("none", "nothing at this path"),
        (&"x".repeat(10_000), "too long"),
    ] {
        let error = call_tool(&toolbox, "read_file", json!({ "path": path })).await.unwrap_err();
        assert!(error.contains(why), "{path}: {error}");
        assert!(
            !error.contains(dir.path().to_str().unwrap()),
            "the child need not know where the root is: {error}"
        );
    }
    let found =
        call_tool(&toolbox, "search_files", json!({ "pattern": "x", "path": "fifo" })).await;
    assert!(found.unwrap_err().contains("not a regular file"));
    assert!(
        call_tool(&toolbox, "search_files", json!({ "pattern": "needle" })).await.is_ok(),
        "it passes the FIFO over"
    );
}

#[tokio::test]
async fn files_are_listed_and_found() {
    let (_dir, toolbox) = world();
    let list = async |arguments: Value| call_tool(&toolbox, "list_files", arguments).await.unwrap();
    assert_eq!(
        list(json!({})).await.replace('\n', " "),
        ".git/ binary circle@ empty latin readme.md src/ to_absolute@ to_file@ to_folder@ to_inside@ to_inside_file@ \
         to_magic@"
    );
    assert_eq!(list(json!({ "path": "src" })).await, "deep/\nmain.rs");
    assert_eq!(list(json!({ "pattern": "*.rs" })).await, "src/main.rs\nsrc/deep/lib.rs");
    assert_eq!(list(json!({ "path": "src", "pattern": "deep/*" })).await, "deep/lib.rs");
    assert_eq!(list(json!({ "pattern": "*.none" })).await, "[no files]");
    let search =
        async |arguments: Value| call_tool(&toolbox, "search_files", arguments).await.unwrap();
    assert_eq!(
        search(json!({ "pattern": "needle" })).await,
        "latin:1: caf\u{fffd} needle\nto_inside_file:2: // needle\nsrc/main.rs:2: // needle\n\
         src/deep/lib.rs:1: needle and needle"
    );
    assert_eq!(
        search(json!({ "pattern": "needle", "path": "src/main.rs" })).await,
        "src/main.rs:2: // needle"
    );
    assert_eq!(search(json!({ "pattern": "Needle" })).await, "[not found]");
    let one = search(json!({ "pattern": "needle", "max_results": 1 })).await;
    assert!(one.starts_with("latin:1: ") && one.ends_with("search a folder below]"), "{one}");
}

#[tokio::test]
async fn a_huge_folder_is_shown_in_part() {
    let (dir, toolbox) = world();
    let many = dir.path().join("root/many");
    fs::create_dir(&many).unwrap();
    for number in 0..10_050 {
        fs::write(many.join(format!("f{number:05}")), "").unwrap();
    }
    for arguments in [json!({ "path": "many" }), json!({ "pattern": "f*" })] {
        let list = call_tool(&toolbox, "list_files", arguments).await.unwrap();
        assert_eq!(list.lines().count(), 1001);
        assert!(list.ends_with("narrower pattern]"));
    }
    assert!(Path::new(&many).exists());
}

#[tokio::test]
async fn arguments_are_checked() {
    let (_dir, toolbox) = world();
    for (tool, arguments, why) in [
        ("read_file", json!({}), "`path` is missing"),
        ("read_file", json!({ "path": 7 }), "`path` must be a string"),
        ("read_file", json!({ "path": "" }), "`path` must not be empty"),
        ("read_file", json!({ "path": "a\0b" }), "NUL"),
        (
            "read_file",
            json!({ "path": "a", "offset": 0 }),
            "`offset` must be a whole number of 1 or more",
        ),
        ("read_file", json!({ "path": "a", "limit": -1 }), "`limit` must be"),
        ("read_file", json!({ "path": "a", "limit": 1.5 }), "`limit` must be"),
        ("read_file", json!({ "path": "a", "limit": "9" }), "`limit` must be"),
        ("read_file", json!({ "path": "a", "line": 1 }), "no argument `line`"),
        ("list_files", json!({ "path": [] }), "`path` must be a string"),
        ("list_files", json!({ "pattern": "" }), "`pattern` must not be empty"),
        ("search_files", json!({}), "`pattern` is missing"),
        ("search_files", json!({ "pattern": "a\nb" }), "line break"),
        ("search_files", json!({ "pattern": "a", "max_results": 0 }), "`max_results` must be"),
    ] {
        let error = call_tool(&toolbox, tool, arguments.clone()).await.unwrap_err();
        assert!(error.contains(why), "{tool} {arguments}: {error}");
    }
    let huge = call_tool(&toolbox, "search_files", json!({ "pattern": "x".repeat(1 << 20) })).await;
    assert_eq!(huge.unwrap(), "[not found]");
    let far = call_tool(
        &toolbox,
        "read_file",
        json!({ "path": "readme.md", "offset": u64::MAX, "limit": u64::MAX }),
    )
    .await;
    assert!(far.unwrap_err().contains("only 3 lines"));
}

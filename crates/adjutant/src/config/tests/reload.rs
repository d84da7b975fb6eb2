use std::sync::{Arc, Mutex};

use super::super::agents::Agents;
use super::super::reload::AgentReloader;
use super::*;

const CONFIG: &str = "agents_dir = 'agents'\n[models.main]\nwire = 'openai'\n[agents.boss]\ndescription = 'd'\nsystem_prompt_file = 'boss.txt'\n";

struct Followed {
    dir: ConfigDir,
    reloader: AgentReloader,
}

fn agent(prompt: &str) -> String {
    format!("---\ndescription: d\ntools: []\n---\n{prompt}\n")
}

fn followed() -> Followed {
    let dir = ConfigDir::new(&[
        ("adjutant.toml", CONFIG),
        ("boss.txt", "You lead."),
        ("agents/a.md", &agent("one")),
        ("agents/b.md", &agent("two")),
    ]);
    let loaded = dir.load();
    assert_eq!(dir.texts(&loaded.errors), [""; 0]);
    let mut reloader = AgentReloader::with_origin(dir.origin(), &loaded.config);
    assert_eq!(prompts(&mut reloader), None, "nothing changed");
    Followed { dir, reloader }
}

/// The prompts of all agents after a reload, if one changed. A change counts only when a second
/// poll sees the same files.
fn prompts(reloader: &mut AgentReloader) -> Option<Vec<String>> {
    assert!(reloader.poll().is_none(), "a file that has just changed may still be being written");
    let agents = reloader.poll()?;
    Some(
        agents
            .values()
            .map(|agent| {
                format!("{}: {}", agent.definition.name, agent.definition.config.system_prompt)
            })
            .collect(),
    )
}

fn is(prompts: &Option<Vec<String>>, expected: &[&str]) {
    assert_eq!(prompts.as_deref().expect("a change"), expected);
}

#[test]
fn changed_new_and_deleted_files_are_detected() {
    let Followed { dir, mut reloader } = followed();
    dir.write("agents/a.md", agent("another"));
    is(&prompts(&mut reloader), &["a: another", "b: two", "boss: You lead."]);
    dir.write("agents/deeper/c.md", agent("three"));
    is(&prompts(&mut reloader), &["a: another", "b: two", "boss: You lead.", "c: three"]);
    fs::remove_file(dir.dir.path().join("agents/b.md")).unwrap();
    is(&prompts(&mut reloader), &["a: another", "boss: You lead.", "c: three"]);
    dir.write("boss.txt", "You follow.");
    is(&prompts(&mut reloader), &["a: another", "boss: You follow.", "c: three"]);
    assert_eq!(prompts(&mut reloader), None);
}

#[test]
fn a_replaced_file_of_the_same_size_and_age_is_detected() {
    let Followed { dir, mut reloader } = followed();
    let (old, new) = (dir.dir.path().join("agents/a.md"), dir.dir.path().join("new"));
    fs::write(&new, agent("uno")).unwrap();
    let age = fs::metadata(&old).unwrap().modified().unwrap();
    fs::File::options().write(true).open(&new).unwrap().set_modified(age).unwrap();
    fs::rename(&new, &old).unwrap();
    is(&prompts(&mut reloader), &["a: uno", "b: two", "boss: You lead."]);
}

#[test]
fn a_rewritten_file_of_the_same_size_and_age_is_detected() {
    let Followed { dir, mut reloader } = followed();
    let age = fs::metadata(dir.dir.path().join("agents/a.md")).unwrap().modified().unwrap();
    dir.write("agents/a.md", agent("uno"));
    let file = fs::File::options().write(true).open(dir.dir.path().join("agents/a.md")).unwrap();
    file.set_modified(age).unwrap();
    is(&prompts(&mut reloader), &["a: uno", "b: two", "boss: You lead."]);
}

#[test]
fn an_agent_that_became_invalid_keeps_its_last_valid_version() {
    let Followed { dir, mut reloader } = followed();
    dir.write("agents/a.md", "---\nname: a\n");
    assert_eq!(prompts(&mut reloader), None, "as before");
    dir.write("agents/b.md", agent("too"));
    is(&prompts(&mut reloader), &["a: one", "b: too", "boss: You lead."]);
    dir.write("agents/a.md", agent("mended"));
    is(&prompts(&mut reloader), &["a: mended", "b: too", "boss: You lead."]);
    dir.write("agents/a.md", "---\nname: a\n");
    assert_eq!(prompts(&mut reloader), None);
    dir.write("agents/heir.md", "---\nname: a\ndescription: d\ntools: []\n---\nheir\n");
    is(&prompts(&mut reloader), &["a: heir", "b: too", "boss: You lead."]);
    fs::remove_file(dir.dir.path().join("agents/a.md")).unwrap();
    assert_eq!(prompts(&mut reloader), None, "the heir stays");
}

#[test]
fn a_config_file_that_became_invalid_keeps_its_agents_and_folders() {
    let Followed { dir, mut reloader } = followed();
    dir.write("adjutant.toml", "agents_dir = [\n");
    assert_eq!(prompts(&mut reloader), None);
    dir.write("agents/a.md", agent("still seen"));
    is(&prompts(&mut reloader), &["a: still seen", "b: two", "boss: You lead."]);
    dir.write(
        "adjutant.toml",
        CONFIG.replace("system_prompt_file = 'boss.txt'", "system_promt = 'x'"),
    );
    assert_eq!(prompts(&mut reloader), None, "one table of it is wrong");
    dir.write(
        "adjutant.toml",
        CONFIG.replace("system_prompt_file = 'boss.txt'", "system_prompt = 'x'"),
    );
    is(&prompts(&mut reloader), &["a: still seen", "b: two", "boss: x"]);
    fs::remove_file(dir.dir.path().join("adjutant.toml")).unwrap();
    assert_eq!(prompts(&mut reloader), None);
}

#[test]
fn agents_of_a_removed_folder_are_kept() {
    let Followed { dir, mut reloader } = followed();
    fs::rename(dir.dir.path().join("agents"), dir.dir.path().join("away")).unwrap();
    assert_eq!(prompts(&mut reloader), None);
    fs::rename(dir.dir.path().join("away"), dir.dir.path().join("agents")).unwrap();
    assert_eq!(prompts(&mut reloader), None);
}

#[test]
fn models_and_limits_change_only_at_a_restart() {
    let Followed { dir, mut reloader } = followed();
    dir.write(
        "adjutant.toml",
        format!("{CONFIG}model = 'new'\n[models.new]\nwire = 'openai'\n[limits]\nmax_turns_ceiling = 2\n"),
    );
    assert_eq!(prompts(&mut reloader), None, "its model is not there before a restart");
    dir.write("agents/a.md", agent("one").replace("tools: []", "tools: []\nmax_turns: 9"));
    let agents = (0..2).find_map(|_| reloader.poll()).expect("a change");
    assert_eq!(agents["a"].definition.config.max_turns, 9);
}

#[tokio::test]
async fn agents_are_sent_until_the_receiver_is_dropped() {
    let Followed { dir, reloader } = followed();
    let (sender, mut receiver) = tokio::sync::watch::channel(Agents::new());
    let running = tokio::spawn(reloader.run(std::time::Duration::from_millis(1), sender));
    dir.write("agents/a.md", agent("sent"));
    let sent = |agents: &Agents| {
        agents.get("a").is_some_and(|agent| agent.definition.config.system_prompt == "sent")
    };
    assert_eq!(receiver.wait_for(sent).await.unwrap().len(), 3);
    drop(receiver);
    running.await.unwrap();
}

/// What is logged meanwhile, without times and colours.
fn logged(reloader: &mut AgentReloader) -> String {
    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);
    impl std::io::Write for Page {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let page = Page::default();
    let writer = page.clone();
    let log = tracing_subscriber::fmt()
        .with_writer(move || writer.clone())
        .without_time()
        .with_ansi(false)
        .with_target(false);
    tracing::subscriber::with_default(log.finish(), || (0..4).for_each(|_| drop(reloader.poll())));
    String::from_utf8(page.0.lock().unwrap().clone()).unwrap()
}

#[test]
fn an_error_is_logged_once_and_again_when_it_returns() {
    let Followed { dir, mut reloader } = followed();
    let folder = format!("{}/", dir.dir.path().display());
    let broken = "---\ndescription: d\ntools: []\nmax_turns: 0\n---\nSecret words.\n";
    let mistake = "ERROR agents/a.md:4:12: max_turns: must be at least 1, not 0; keeping the previous version\n";
    let mut logged = || logged(&mut reloader).replace(&folder, "");
    dir.write("agents/a.md", broken);
    assert_eq!(logged(), mistake);
    assert_eq!(logged(), "");
    dir.write("agents/b.md", agent("Other words."));
    assert_eq!(logged(), " INFO agents reloaded: a, b, boss\n");
    dir.write("agents/a.md", agent("one"));
    assert_eq!(logged(), "");
    dir.write("agents/a.md", broken);
    assert_eq!(logged(), mistake);
}

#[test]
fn a_change_that_needs_a_restart_is_logged_once() {
    let Followed { dir, mut reloader } = followed();
    let folder = format!("{}/", dir.dir.path().display());
    let mut logged = || logged(&mut reloader).replace(&folder, "");
    dir.write(
        "adjutant.toml",
        format!("default_model = 'b'\n{CONFIG}[models.b]\nwire = 'openai'\n[tools.fetch]\nenabled = false\n"),
    );
    let needs_restart = " WARN adjutant.toml: models: has changed; restart to apply it\n \
                          WARN adjutant.toml: tools: has changed; restart to apply it\n";
    assert_eq!(logged(), needs_restart);
    dir.write("agents/a.md", agent("another"));
    assert_eq!(logged(), " INFO agents reloaded: a, b, boss\n");
}

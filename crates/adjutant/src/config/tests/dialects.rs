use std::time::Duration;

use adjutant_dialects::xzatoma::Settings;
use adjutant_store::Quota;

use super::*;

fn loaded(text: &str) -> Loaded {
    ConfigDir::new(&[("adjutant.toml", text)]).load()
}

#[test]
fn settings_of_dialects_are_read_within_their_limits() {
    let dialects = loaded("").config.dialects;
    assert_eq!(
        (dialects.longest_wait, dialects.xzatoma),
        (Duration::from_secs(45), Settings::default())
    );
    let text = "[dialects]\nlongest_wait_s = 0.5\n[dialects.xzatoma]\nmax_depth = 10\ndefault_max_turns = 100\n\
        output_max_size = 1024\ntelemetry_enabled = false\npersistence_enabled = true\nmax_executions = 1\n\
        max_total_tokens = 2\nmax_total_time = 3.5\n";
    let all = loaded(text);
    assert!(all.errors.is_empty() && all.config.warnings.is_empty());
    let quota =
        Quota { max_executions: Some(1), max_total_tokens: Some(2), max_total_time: Some(3.5) };
    let expected = Settings {
        max_depth: 10,
        default_max_turns: 100,
        output_max_size: 1024,
        telemetry_enabled: false,
        quota,
    };
    let dialects = all.config.dialects;
    assert_eq!((dialects.longest_wait, dialects.xzatoma), (Duration::from_millis(500), expected));
    for (setting, least, most) in [
        ("max_depth", 1, Some(10)),
        ("default_max_turns", 1, Some(100)),
        ("output_max_size", 1024, None),
        ("max_executions", 1, None),
        ("max_total_tokens", 1, None),
    ] {
        let errors =
            |value: i64| loaded(&format!("[dialects.xzatoma]\n{setting} = {value}\n")).errors.len();
        assert_eq!((errors(least), errors(least - 1)), (0, 1), "{setting}");
        if let Some(most) = most {
            assert_eq!((errors(most), errors(most + 1)), (0, 1), "{setting}");
        }
    }
    for (wait, errors) in [("0.1", 0), ("45", 0), ("0", 1), ("45.1", 1)] {
        assert_eq!(
            loaded(&format!("[dialects]\nlongest_wait_s = {wait}\n")).errors.len(),
            errors,
            "{wait}"
        );
    }
}

#[test]
fn an_unknown_dialect_setting_suggests_the_nearest_and_one_without_effect_is_a_warning() {
    let dir = ConfigDir::new(&[("adjutant.toml", "[dialects.xzatoma]\nmax_dept = 1\n")]);
    let expected = "adjutant.toml:2:1: dialects.xzatoma.max_dept: unknown setting; did you mean dialects.xzatoma.max_depth?";
    assert_eq!(dir.errors(), [expected]);
    let dir =
        ConfigDir::new(&[("adjutant.toml", "[dialects.xzatoma]\npersistence_enabled = false\n")]);
    let loaded = dir.load();
    assert!(loaded.errors.is_empty());
    let warnings = dir.texts(&loaded.config.warnings);
    assert!(warnings[0].contains("persistence_enabled: has no effect"), "{warnings:?}");
}

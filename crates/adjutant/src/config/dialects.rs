//! `[dialects]`: the tools of other sources. Each dialect declares its settings in its own folder
//! of `adjutant-dialects`.

use std::sync::LazyLock;

use adjutant_dialects::{DialectSettings, SettingKind, SettingRole};

use super::assemble::{deserialize, node, section};
use super::problem::Findings;
use super::schema::{Kind, Setting};
use super::tree::Table;

static SETTINGS: LazyLock<Vec<Setting>> = LazyLock::new(|| {
    let settings = adjutant_dialects::settings();
    settings.map(|setting| Setting { name: setting.name, kind: kind(setting.kind) }).collect()
});

pub fn settings() -> &'static [Setting] {
    &SETTINGS
}

fn kind(kind: SettingKind) -> Kind {
    match kind {
        SettingKind::Whole { least, most } => Kind::Integer { min: least, max: most },
        SettingKind::Number { least, most } => Kind::Number { min: least, max: most },
        SettingKind::Positive => Kind::PositiveNumber,
        SettingKind::Flag => Kind::Boolean,
        SettingKind::Texts => Kind::TextList,
        SettingKind::Word(words) => Kind::OneOf(words),
    }
}

pub fn read(table: &Table, findings: &mut Findings) -> DialectSettings {
    for setting in adjutant_dialects::settings() {
        let SettingRole::AlwaysTrue(why) = setting.role else { continue };
        if let Some(node) = node(table, setting.name).filter(|node| !node.is_true()) {
            findings.warning(&node.location, setting.name, format!("has no effect: {why}"));
        }
    }
    deserialize(table, "dialects", findings).unwrap_or_default()
}

/// The fleet-wide cap by the name that a dialect has for it. It must agree with `limits.cap`.
pub fn cap(table: &Table, findings: &mut Findings) -> Option<i32> {
    let mut caps =
        adjutant_dialects::settings().filter(|setting| setting.role == SettingRole::FleetCap);
    let (name, node) = caps.find_map(|setting| Some((setting.name, node(table, setting.name)?)))?;
    let cap = node.as_integer()?;
    let other = section(table, "limits").and_then(|limits| limits.get("cap")?.as_integer());
    if let Some(other) = other.filter(|other| *other != cap) {
        let text = format!("is {cap}, but limits.cap is {other}; set only one of them");
        findings.error(&node.location, name, text);
    }
    i32::try_from(cap).ok()
}

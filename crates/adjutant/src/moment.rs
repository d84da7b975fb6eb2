//! Parses and formats times and durations.

use std::time::Duration;

pub use adjutant_store::moment::utc as as_rfc3339;

use chrono::{DateTime, TimeDelta, Utc};

/// Parses a time: RFC 3339, a date, or a duration ago (`90s`, `15m`, `2h`, `3d`).
pub fn parse_time(text: &str) -> Result<DateTime<Utc>, String> {
    if let Ok(moment) = DateTime::parse_from_rfc3339(text) {
        return Ok(moment.to_utc());
    }
    if let Ok(date) = text.parse::<chrono::NaiveDate>() {
        return Ok(date.and_time(chrono::NaiveTime::MIN).and_utc());
    }
    let age = parse_duration(text)
        .ok()
        .and_then(|short_duration| TimeDelta::from_std(short_duration).ok())
        .and_then(|age| Utc::now().checked_sub_signed(age));
    age.ok_or_else(|| "must be like 2h, 3d, 2026-07-01 or 2026-07-01T12:00:00Z".to_owned())
}

/// Parses a duration: `90`, `90s`, `15m`, `2h`, `3d`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let number = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &text[number.len()..] {
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err("must be like 90, 90s, 15m, 2h or 3d".to_owned()),
    };
    let seconds =
        number.parse::<f64>().ok().filter(|seconds| *seconds > 0.0).map(|number| number * unit);
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| "must be more than 0, like 90, 90s, 15m, 2h or 3d".to_owned())
}

/// How long ago an RFC 3339 time was, in its largest unit; empty if it is not a time.
pub fn age(moment: &str, now: DateTime<Utc>) -> String {
    let Ok(moment) = DateTime::parse_from_rfc3339(moment) else { return String::new() };
    short_duration(now.signed_duration_since(moment).to_std().unwrap_or_default())
}

/// A duration in its largest unit.
pub fn short_duration(short_duration: Duration) -> String {
    match short_duration.as_secs() {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds @ 60..3600 => format!("{}m", seconds / 60),
        seconds @ 3600..86_400 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_times_are_parsed() {
        assert_eq!(parse_duration("90"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("3d"), Ok(Duration::from_secs(3 * 86_400)));
        for nonsense in
            ["", "0", "-1", "h", "1x", "NaN", "1e400d", "9999999999999999999d", "5 m", "ß"]
        {
            assert!(parse_duration(nonsense).is_err(), "{nonsense}");
            assert!(parse_time(nonsense).is_err(), "{nonsense}");
        }
        assert_eq!(as_rfc3339(parse_time("2026-07-01").unwrap()), "2026-07-01T00:00:00.000Z");
        assert_eq!(
            as_rfc3339(parse_time("2026-07-01T12:00:00+02:00").unwrap()),
            "2026-07-01T10:00:00.000Z"
        );
        let then = parse_time("2h").unwrap();
        assert_eq!((Utc::now() - then).num_minutes(), 120);
    }

    #[test]
    fn an_age_is_shown_in_one_unit() {
        let now = parse_time("2026-07-02T00:00:00Z").unwrap();
        for (then, shown) in [
            ("2026-07-01T23:59:01Z", "59s"),
            ("2026-07-01T23:00:01Z", "59m"),
            ("2026-07-01T00:00:01Z", "23h"),
            ("2026-06-01T00:00:00Z", "31d"),
            ("2026-07-03T00:00:00Z", "0s"),
            ("yesterday", ""),
        ] {
            assert_eq!(age(then, now), shown, "{then}");
        }
    }
}

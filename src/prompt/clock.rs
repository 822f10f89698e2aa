//! The time as the prompt shows it: local, floored to five minutes so that the prompt's bytes stay the same for a while.

use std::time::{SystemTime, UNIX_EPOCH};

const STEP_SECONDS: i64 = 300;
const DAY_SECONDS: i64 = 86_400;
const WEEKDAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];

/// A moment and the local offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    /// Seconds since 1970 in UTC.
    pub unix_seconds: i64,
    /// Local time minus UTC.
    pub offset_seconds: i32,
}

impl Clock {
    /// The system's clock in the zone of `tz` (the value of `TZ`), else the system's zone, else UTC.
    pub fn now(tz: Option<&str>) -> Self {
        let unix_seconds =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs().min(i64::MAX as u64) as i64);
        let zone = match tz {
            Some(tz) => tz::TimeZone::from_posix_tz(tz),
            None => tz::TimeZone::local(),
        };
        let offset_seconds =
            zone.ok().and_then(|zone| Some(zone.find_local_time_type(unix_seconds).ok()?.ut_offset())).unwrap_or(0);
        Self { unix_seconds, offset_seconds }
    }

    /// `2026-03-01T14:25:00+02:00`, floored to five minutes.
    pub fn local_iso(self) -> String {
        let local = self.floored();
        let (year, month, day) = civil(local.div_euclid(DAY_SECONDS));
        let second = local.rem_euclid(DAY_SECONDS);
        let sign = if self.offset_seconds < 0 { '-' } else { '+' };
        let offset = self.offset_seconds.unsigned_abs() / 60;
        format!(
            "{year:04}-{month:02}-{day:02}T{:02}:{:02}:00{sign}{:02}:{:02}",
            second / 3600,
            second / 60 % 60,
            offset / 60,
            offset % 60
        )
    }

    /// The local day's English name.
    pub fn weekday(self) -> &'static str {
        WEEKDAYS[self.floored().div_euclid(DAY_SECONDS).rem_euclid(7) as usize]
    }

    fn floored(self) -> i64 {
        let local = self.unix_seconds.saturating_add(i64::from(self.offset_seconds));
        local - local.rem_euclid(STEP_SECONDS)
    }
}

/// Year, month and day of a count of days since 1970-01-01 in the Gregorian calendar. Years are counted from March, so
/// that the leap day is the last of its year.
fn civil(days: i64) -> (i64, i64, i64) {
    const ERA_DAYS: i64 = 146_097;
    let shifted = days + 719_468;
    let era = shifted.div_euclid(ERA_DAYS);
    let day_of_era = shifted.rem_euclid(ERA_DAYS);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(unix_seconds: i64, offset_seconds: i32) -> Clock {
        Clock { unix_seconds, offset_seconds }
    }

    #[test]
    fn shows_local_time_floored_to_five_minutes() {
        for (unix, offset, wanted, day) in [
            (0, 0, "1970-01-01T00:00:00+00:00", "Thursday"),
            (299, 0, "1970-01-01T00:00:00+00:00", "Thursday"),
            (300, 0, "1970-01-01T00:05:00+00:00", "Thursday"),
            (1_709_164_799, 0, "2024-02-28T23:55:00+00:00", "Wednesday"),
            (1_709_164_800, 0, "2024-02-29T00:00:00+00:00", "Thursday"),
            (1_709_251_200, -1, "2024-02-29T23:55:00-00:00", "Thursday"),
            (951_868_800, 0, "2000-03-01T00:00:00+00:00", "Wednesday"),
            (1_767_225_599, 19_800, "2026-01-01T05:25:00+05:30", "Thursday"),
            (1_767_225_600, -12_600, "2025-12-31T20:30:00-03:30", "Wednesday"),
            (-1, 0, "1969-12-31T23:55:00+00:00", "Wednesday"),
        ] {
            assert_eq!(at(unix, offset).local_iso(), wanted);
            assert_eq!(at(unix, offset).weekday(), day, "{wanted}");
        }
    }

    #[test]
    fn a_zone_that_cannot_be_read_is_utc() {
        assert_eq!(Clock::now(Some("No/Such-Zone")).offset_seconds, 0);
        assert_eq!(Clock::now(Some("XYZ-3:30")).offset_seconds, 12_600);
    }
}

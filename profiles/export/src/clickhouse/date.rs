//! Days of the proleptic Gregorian calendar in UTC, as ClickHouse's type `Date` has them.
//!
//! Used for the day of a row, and by `profiler fleet` for ranges of time.

/// Days in 400 years, after which the calendar repeats.
const DAYS_OF_400_YEARS: i64 = 146_097;
/// Days from the first of March of the year 0 to 1970.
const DAYS_TO_1970: i64 = 719_468;

/// Year, month and day of the day with this number since 1970.
pub const fn civil_date(days: i64) -> (i64, u32, u32) {
    let since_march = days + DAYS_TO_1970;
    let era = since_march.div_euclid(DAYS_OF_400_YEARS);
    let day_of_era = since_march.rem_euclid(DAYS_OF_400_YEARS);
    let leap_days = day_of_era / 1460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = year_of_era + era * 400 + (month <= 2) as i64;
    (year, month as u32, day as u32)
}

/// The number since 1970 of a day; `None` if there is no such day.
pub fn days_since_1970(year: i64, month: u32, day: u32) -> Option<i64> {
    if !(0..=9999).contains(&year) || !(1..=12).contains(&month) {
        return None;
    }
    let from_march = (i64::from(month) + 9) % 12;
    let year_from_march = year - i64::from(month <= 2);
    let era = year_from_march.div_euclid(400);
    let year_of_era = year_from_march.rem_euclid(400);
    let day_of_year = (153 * from_march + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = era * DAYS_OF_400_YEARS + day_of_era - DAYS_TO_1970;
    // A day that the month does not have is a day of another month.
    (civil_date(days) == (year, month, day)).then_some(days)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_are_inverse_for_four_centuries() {
        let mut before = (1899, 12, 31);
        for days in -25_567..120_000 {
            let (year, month, day) = civil_date(days);
            assert!((year, month, day) > before, "{year}-{month}-{day}");
            assert_eq!(days_since_1970(year, month, day), Some(days));
            before = (year, month, day);
        }
        assert_eq!(civil_date(0), (1970, 1, 1));
        assert_eq!(civil_date(19_782), (2024, 2, 29));
    }

    #[test]
    fn a_day_that_does_not_exist_has_no_number() {
        for (year, month, day) in [(2023, 2, 29), (2024, 13, 1), (2024, 0, 1), (2024, 4, 31)] {
            assert_eq!(days_since_1970(year, month, day), None);
        }
        assert_eq!(days_since_1970(2024, 1, 0), None);
    }
}

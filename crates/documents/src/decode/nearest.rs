//! Suggestions for misspelled names.

/// Maximum difference that counts as a typo.
const MOST_SLIPS: usize = 2;
/// Longer words are not compared, because no field has such a name.
const LONGEST: usize = 64;

/// The nearest name to `given`, if one is close.
pub(super) fn find_nearest<'n>(given: &str, names: &[&'n str]) -> Option<&'n str> {
    let plain = |text: &str| text.to_ascii_lowercase().replace(['-', ' ', '_'], "");
    if given.len() > LONGEST {
        return None;
    }
    let given = plain(given);
    let distances = names.iter().map(|name| (distance(&given, &plain(name)), *name));
    let nearest = distances.min_by_key(|(slips, _)| *slips)?;
    (nearest.0 <= MOST_SLIPS && nearest.0 * 2 < given.len()).then_some(nearest.1)
}

/// Number of letters to insert, remove or change.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut before = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let changed = before + usize::from(from != *to);
            before = row[j + 1];
            row[j + 1] = changed.min(before + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_keyboard_is_seen_and_another_word_is_not_taken_for_one() {
        let names = ["statusTypes", "claimState", "stepKey", "id"];
        assert_eq!(find_nearest("status_types", &names), Some("statusTypes"));
        assert_eq!(find_nearest("claim_sate", &names), Some("claimState"));
        assert_eq!(find_nearest("claim-state", &names), Some("claimState"));
        assert_eq!(find_nearest("colour", &names), None);
        assert_eq!(find_nearest("in", &names), None, "half of it is another word");
        assert_eq!(find_nearest(&"x".repeat(100_000), &names), None);
        assert_eq!(find_nearest("", &names), None);
    }
}

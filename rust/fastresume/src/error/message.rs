//! Messages stay short whatever names are in them, and hold no password.

use std::borrow::Cow;

/// The most characters of one name: what is longer loses its middle.
pub const MOST_OF_A_NAME: usize = 400;

/// The most characters of a message, but for the words that tell how many were left out.
pub const MOST_OF_A_MESSAGE: usize = 2000;

/// The message without the passwords of addresses. What is long loses its middle: each word first, then the whole.
#[must_use]
pub fn bounded(message: &str) -> String {
    let message = without_passwords(message);
    if message.len() <= MOST_OF_A_NAME {
        return message.into_owned();
    }
    let words: Vec<Cow<'_, str>> =
        message.split_inclusive(char::is_whitespace).map(|word| shortened(word, MOST_OF_A_NAME)).collect();
    shortened(&words.concat(), MOST_OF_A_MESSAGE).into_owned()
}

/// A number and a noun, in the plural if needed.
#[must_use]
pub fn plural(count: u64, noun: &str) -> String {
    let end = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{end}")
}

/// What stands where characters were left out, behind their number.
const LEFT_OUT: &str = " characters left out)...";

/// What stands before their number.
const BEFORE: &str = "...(";

/// With the number, both have no more characters than this.
const MOST_OF_WORDS: usize = 50;

/// A text of at most so many characters: a longer one without its middle, with the count of what is left out. One that
/// was shortened stays as it is, and what it left out is counted where it is shortened again.
#[must_use]
pub fn shortened(text: &str, most: usize) -> Cow<'_, str> {
    let half = most / 2;
    let count = if text.len() <= most { text.len() } else { text.chars().count() };
    let cut = |number| text.char_indices().nth(number).map_or(text.len(), |(place, _)| place);
    if count <= most || (count <= most + MOST_OF_WORDS && text.contains(LEFT_OUT)) {
        return text.into();
    }
    let middle = &text[cut(half)..cut(count - half)];
    let (start, end) = (&text[..cut(half)], &text[cut(count - half)..]);
    format!("{start}{BEFORE}{}{LEFT_OUT}{end}", count - 2 * half + left_out_before(middle)).into()
}

/// How many characters more a text had before they were left out of it.
fn left_out_before(text: &str) -> usize {
    let counts = text.match_indices(LEFT_OUT).map(|(end, _)| {
        let before = text[..end].trim_end_matches(|char: char| char.is_ascii_digit());
        let digits = &text[before.len()..end];
        let count: usize = if before.ends_with(BEFORE) { digits.parse().unwrap_or(0) } else { 0 };
        count.saturating_sub(BEFORE.len() + digits.len() + LEFT_OUT.len())
    });
    counts.fold(0, usize::saturating_add)
}

/// Addresses without user and password: `s3://key:secret@bucket` is `s3://***@bucket`.
fn without_passwords(message: &str) -> Cow<'_, str> {
    if !message.contains('@') || !message.contains(":/") {
        return message.into();
    }
    message.split_inclusive(char::is_whitespace).map(without_password).collect::<Vec<_>>().concat().into()
}

fn without_password(word: &str) -> Cow<'_, str> {
    let Some(last) = word.rfind('@') else { return word.into() };
    let mut masked = String::new();
    let mut done = 0;
    while let Some(scheme) = word[done..last].find(":/") {
        // One slash is left where a path was made of an address.
        let slashes = done + scheme + 1;
        let start = slashes + word[slashes..].find(|char| char != '/').unwrap_or(0);
        let address = &word[start..];
        let authority = &address[..address.find('/').unwrap_or(address.len())];
        masked.push_str(&word[done..start]);
        done = start;
        let end = if let Some(end) = authority.rfind('@') {
            start + end
        } else if authority.split_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_err()) {
            // A slash may stand in the password itself.
            last
        } else {
            continue;
        };
        masked.push_str("***@");
        done = end + 1;
        if done > last {
            break;
        }
    }
    masked.push_str(&word[done..]);
    masked.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_message_stays_as_it_is() {
        for message in ["", "no column 'é'", &"é".repeat(MOST_OF_A_NAME), "mail a@b: /c"] {
            assert_eq!(bounded(message), message);
        }
    }

    #[test]
    fn a_long_name_loses_its_middle_and_what_stands_around_it_stays() {
        let message = bounded(&format!("no column 'a{}z' in the file", "é".repeat(200_000)));
        assert!(message.starts_with("no column 'aéé"), "{message}");
        assert!(message.contains("...(199605 characters left out)..."), "{message}");
        assert!(message.ends_with("éz' in the file"), "{message}");
    }

    #[test]
    fn a_message_of_many_words_loses_its_middle() {
        let message = bounded(&format!("begin {}end", "é ".repeat(500_000)));
        assert!(message.starts_with("begin é") && message.ends_with("é end"), "{message}");
        assert!(message.chars().count() < MOST_OF_A_MESSAGE + 50);
    }

    #[test]
    fn what_is_bounded_twice_counts_all_that_is_left_out() {
        for length in [3_000, 100_000] {
            let words = "é ".repeat(length / 2);
            let once = bounded(&words);
            assert!(once.contains(&format!("...({} characters left out)...", length - 2000)), "{once}");
            assert_eq!(bounded(&once), once);
            let twice = bounded(&format!("{0}{once}{0}", "a b ".repeat(25)));
            assert!(
                twice.contains(&format!("...({} characters left out)...", length + 200 - 2000)),
                "{twice}"
            );
        }
    }

    #[test]
    fn no_password_of_an_address_is_shown() {
        for (message, shown) in [
            ("found 's3://key:secret@bucket/a@b'", "found 's3://***@bucket/a@b'"),
            ("'s3:/key:secret@bucket/x'", "'s3:/***@bucket/x'"),
            ("https://token@host/x", "https://***@host/x"),
            ("ftp://a:se/c@ret@host/x", "ftp://***@host/x"),
            ("['a://b:c@d','e://f:g@h']", "['a://***@d','e://***@h']"),
            ("http://host:80/a@b and a:/b", "http://host:80/a@b and a:/b"),
            ("a://b c://d:e@f", "a://b c://***@f"),
        ] {
            assert_eq!(bounded(message), shown);
        }
    }

    #[test]
    fn a_hundred_thousand_addresses_in_one_word_take_no_stack_and_no_quadratic_time() {
        for part in ["a:/", "a:x/", ":/", "a://b@", "@:/"] {
            for end in ["", "@"] {
                let message = bounded(&(part.repeat(1 << 17) + end));
                assert!(message.chars().count() < MOST_OF_A_MESSAGE + 50);
            }
        }
    }
}

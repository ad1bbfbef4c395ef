//! Tests of the texts that users read one by one: the help of every command and flag, and the rows
//! of the tables of settings, metrics and reasons.
//!
//! Invariant: a text is complete by itself, and no sentence of it is longer than 25 words.

use clap::Command;

/// Longest sentence, in words. A code span counts as one word.
const SENTENCE_WORDS_MAX: usize = 25;

/// Beginnings of texts that refer to another text.
const REFERRING: [&str; 7] = ["Also ", "Likewise", "Such ", "The same ", "These ", "This ", "Those "];

/// Texts with the names of their places.
type Texts = Vec<(String, String)>;

/// Adds the help of a command, its flags and its subcommands. The long help replaces the short one
/// where both exist, because it repeats the short one.
fn add_help(texts: &mut Texts, path: &str, command: &Command) {
    let mut add = |place: &str, text: Option<String>| {
        texts.extend(text.map(|text| (format!("{path} {place}"), text)));
    };
    let about = command.get_long_about().or_else(|| command.get_about());
    add("about", about.map(ToString::to_string));
    add("before", command.get_before_help().map(ToString::to_string));
    add("after", command.get_after_help().map(ToString::to_string));
    for arg in command.get_arguments() {
        let help = arg.get_long_help().or_else(|| arg.get_help());
        add(arg.get_id().as_str(), help.map(ToString::to_string));
    }
    for subcommand in command.get_subcommands() {
        add_help(texts, &format!("{path} {}", subcommand.get_name()), subcommand);
    }
}

fn texts() -> Texts {
    let mut texts = Texts::new();
    add_help(&mut texts, "petasos", &crate::command());
    texts.extend(config::SETTINGS.iter().map(|setting| (setting.key.to_owned(), setting.doc.to_owned())));
    texts.extend(edge::METRICS.iter().map(|row| (row.name.to_owned(), row.help.to_owned())));
    let reasons = semantics::Reason::ALL.iter();
    texts.extend(reasons.map(|reason| (reason.name().to_owned(), reason.advice().to_owned())));
    texts
}

/// Splits a text after full stops and at empty lines, and counts the words of each sentence.
fn sentence_words(text: &str) -> Vec<(usize, String)> {
    let mut sentences = Vec::new();
    for paragraph in text.split("\n\n") {
        let mut sentence = String::new();
        let mut words = 0;
        let mut is_code = false;
        for word in paragraph.split_whitespace() {
            words += usize::from(!is_code);
            is_code ^= word.matches('`').count() % 2 == 1;
            sentence = sentence + " " + word;
            if !is_code && word.trim_end_matches([')', '"']).ends_with(['.', '?', '!']) {
                sentences.push((std::mem::take(&mut words), std::mem::take(&mut sentence)));
            }
        }
        sentences.push((words, sentence));
    }
    sentences
}

#[test]
fn no_sentence_of_help_or_tables_is_too_long() {
    let mut long = Vec::new();
    for (place, text) in texts() {
        for (words, sentence) in sentence_words(&text) {
            if words > SENTENCE_WORDS_MAX {
                long.push(format!("{place}: {words} words:{sentence}"));
            }
        }
    }
    assert!(long.is_empty(), "{} sentences are too long:\n{}", long.len(), long.join("\n"));
}

#[test]
fn no_text_of_help_or_tables_refers_to_another() {
    let referring = |text: &str| REFERRING.iter().any(|start| text.starts_with(start));
    let found: Vec<_> = texts().into_iter().filter(|(_, text)| referring(text)).collect();
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn words_of_each_sentence_are_counted() {
    let counted: Vec<_> = sentence_words("One `two words` (three). Four\n\nFive 1.5 six")
        .into_iter()
        .map(|(words, _)| words)
        .collect();
    assert_eq!(counted, [3, 1, 3]);
}

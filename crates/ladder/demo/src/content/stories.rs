//! Writes articles, the pages about the shop, small menus and word lists.

use super::material::TAGS;
use super::prose::{self, Subject};
use super::taxonomy::{TAG, TOPIC, link};
use super::{ARTICLES, DAY, FIRST_DAY, NODES, Node, Writer};
use crate::text::slug;

/// Writes all nodes other than products.
pub(super) fn write(writer: &mut Writer<'_>) -> rusqlite::Result<()> {
    for index in 0..ARTICLES {
        article(writer, index)?;
    }
    write_pages(writer)?;
    write_menus(writer)?;
    write_words(writer)
}

/// Title templates of articles, by topic. Gaps are filled as in the texts.
const TITLES: &[(&str, &[&str])] = &[
    ("Repairs", &["How to mend a puncture in {town}", "The {line} taken apart", "A chain in four winters"]),
    ("Commuting", &["Every day to {town}", "Dry to work with {brand}", "Twelve months without a car"]),
    ("Touring", &["From {town} to {town} in a day", "Two bags, one {line}", "Along the river to {town}"]),
    ("Buying guides", &["The {line} compared", "What {brand} does better", "How to choose, part {node}"]),
    ("News", &["A new lane in {town}", "{brand} comes to {town}", "New hours in {town}"]),
    ("People", &["The postwoman of {town}", "A visit to {brand}", "Forty years behind the counter"]),
    ("History", &["The first {line}", "How {town} got its track", "A factory in {town}"]),
    ("Safety", &["Seen at night in {town}", "The corner of {town}", "Brakes that hold: the {line}"]),
    ("Families", &["With three children to {town}", "The first bicycle: {line}", "A trailer from {brand}"]),
    ("Racing", &["Mud and honour in {town}", "The {line} on the track", "A night race in {town}"]),
];

fn article(writer: &mut Writer<'_>, index: i64) -> rusqlite::Result<()> {
    let choices = &mut writer.choices;
    let (topic, titles) = choices.pick(TITLES);
    let subject = Subject { noun: "bicycles", nodes: NODES, sentences: prose::ARTICLE };
    let pattern = choices.pick(titles);
    let title = prose::fill(choices, pattern, &subject);
    let paragraphs = 4 + choices.below(5);
    let body = prose::text(choices, paragraphs, &["On the way", "What you need", "At the end"], &subject);
    let uid = 2 + choices.below(40) as i64;
    let created = FIRST_DAY + index * DAY * 16 / 15 + choices.between(6, 20) * 3600;
    let promote = choices.chance(25);
    let tags = [*choices.pick(TAGS), *choices.pick(TAGS)];
    let node = Node {
        kind: "article",
        title: &title,
        uid,
        created,
        promote,
        comment: 2,
        body: &body,
        alias: &format!("journal/{}", slug(&title)),
    };
    let nid = writer.node(&node)?;
    writer.file_under(nid, TOPIC, topic)?;
    for tag in tags {
        writer.file_under(nid, TAG, tag)?;
    }
    Ok(())
}

/// The pages about the shop: title and first sentence.
const PAGES: &[(&str, &str)] = &[
    ("About us", "Mission Bicycles has sold, built and mended bicycles since 1998."),
    ("Delivery", "We send parcels by post and whole bicycles by freight, nearly assembled."),
    ("Returns", "What does not fit goes back, and we pay the postage for mistakes of ours."),
    ("Privacy", "A visitor who only looks around leaves nothing behind, not even a cookie."),
    ("Terms", "The small print, in large letters."),
    ("Size guide", "Measure your leg without shoes, from the ground to the top of a book held high."),
    ("Workshop", "Bring it in before ten and ride it home after five."),
    ("Jobs", "We look for a mechanic in two towns, and always for people who can explain."),
    ("Press", "Pictures and texts that may be printed."),
    ("Accessibility", "How to get in, how to be heard, and how this site can be used."),
    ("Guarantee", "Three years on everything, ten on frames of our own."),
    ("Gift cards", "For those who know somebody with a bicycle but not which one."),
    ("Trade-in", "We take your old bicycle when you buy a new one, and somebody will love it again."),
    ("Leasing", "By the month, with service, for people and for firms."),
    ("Bike fitting", "An hour with a ruler, two plumb lines and a mechanic who has done it before."),
    ("Test rides", "Take it for a day; leave us yours meanwhile."),
    ("Recycling", "What becomes of tyres, tubes and batteries."),
    ("Suppliers", "Who makes what we sell, and where."),
    ("Imprint", "Who is responsible for these pages."),
    ("Questions and answers", "What we are asked most often, with answers that fit on a card."),
    ("Payment", "Cash, card, transfer; no account is needed."),
    ("Prices of repairs", "A puncture costs as much as two coffees; the list says the rest."),
    ("Insurance", "What it covers, what it does not, and whom to call at night."),
    ("Lost and found", "Gloves, lamps, a tuba: what was left in our shops."),
];

fn write_pages(writer: &mut Writer<'_>) -> rusqlite::Result<()> {
    for (title, lead) in PAGES {
        let subject = Subject { noun: "bicycle", nodes: NODES, sentences: prose::SERVICE };
        let text = prose::text(&mut writer.choices, 5, &["In the shop", "By post"], &subject);
        let body = format!("{lead}\n\n{text}");
        let node = Node {
            kind: "page",
            title,
            uid: 1,
            created: FIRST_DAY,
            promote: false,
            comment: 0,
            body: &body,
            alias: &slug(title),
        };
        writer.node(&node)?;
    }
    Ok(())
}

fn write_menus(writer: &Writer<'_>) -> rusqlite::Result<()> {
    let places = [("shop", "The shop"), ("journal", "Journal"), ("search", "Search")];
    for (weight, (path, title)) in places.into_iter().enumerate() {
        link(writer, "secondary", 0, path, title, weight)?;
    }
    let first_page = NODES - PAGES.len() as i64 + 1;
    for (weight, (title, _)) in PAGES.iter().enumerate() {
        let menu = if weight % 2 == 0 { "footer" } else { "service" };
        link(writer, menu, 0, &format!("node/{}", first_page + weight as i64), title, weight)?;
    }
    link(writer, "footer", 0, "contact", "Contact", PAGES.len())?;
    Ok(())
}

fn write_words(writer: &Writer<'_>) -> rusqlite::Result<()> {
    let locales =
        [("Best sellers", "What others buy"), ("More", "Read on"), ("Recent comments", "Lately said")];
    for (source, translation) in locales {
        writer.run("INSERT INTO locales VALUES (?, ?)", [source, translation])?;
    }
    Ok(())
}

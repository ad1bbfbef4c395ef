//! Sentences with gaps, and the functions that fill them.
//!
//! Texts use the site's light markup, which its filters convert to HTML:
//!
//! - a blank line between paragraphs,
//! - `## ` before a heading and `- ` before an item,
//! - `*emphasis*` and `**strong**`,
//! - `[[node:12|words]]` for a link to another page.

use super::material::{BRANDS, LINES, TOWNS};
use super::random::Choices;

/// The subject of a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject<'a> {
    /// The noun for the subject in a sentence, such as "touring bike" or "repairs".
    pub(super) noun: &'static str,
    /// Highest node number that links may use; the lowest is 1.
    pub(super) nodes: i64,
    /// The sentences to choose from.
    pub(super) sentences: &'a [&'static str],
}

/// Sentences about a product.
pub(super) const PRODUCT: &[&str] = &[
    "This {noun} was made for people who ride every day and look after their things.",
    "We have ridden it for a winter between {town} and {town} and found nothing to complain about.",
    "The finish is thick where stones fly and thin where nobody looks.",
    "It goes well with parts by {brand}, and with most of what is already on your bicycle.",
    "Nothing on it is glued that could be screwed, so it can be taken apart and mended.",
    "The maker keeps spare parts for *ten years* and we keep the common ones on the shelf.",
    "If you are between two sizes, come by: a ride around the block says more than a table.",
    "A good {noun} is one you stop thinking about, and this one is forgotten after a week.",
    "The {line} of last year had a weak spot at the clamp; it has been made *two millimetres* thicker.",
    "It is lighter than it looks and stronger than it has to be.",
    "Our mechanics fit it while you drink a coffee, usually within half an hour.",
    "It is packed in cardboard and paper, without plastic.",
    "Rain does not hurt it; salt does, so rinse it now and then in winter.",
    "In our test on cobbles it stayed quiet, which cannot be said of its neighbours on the shelf.",
    "You get it ready to ride, with a first service after two months **included in the price**.",
    "The bolts take a 5 mm hex key, the one that is on every multitool.",
    "See [[node:{node}|what we fit beside it]] if you build a whole bicycle.",
    "Riders from {town} asked for a second colour, and here it is.",
    "It weighs what the table says: we put every one on the scales.",
    "Three years of guarantee, and we do not ask how often you fell.",
];

/// Sentences of articles.
pub(super) const ARTICLE: &[&str] = &[
    "The road from {town} to {town} is thirty kilometres long and has one hill worth the name.",
    "Most of what is written about {noun} is true on dry days only.",
    "A neighbour in {town} has used the same chain for four winters; we asked him how.",
    "The answer is dull and cheap: *clean it, dry it, oil it*, in this order.",
    "You need a rag, a bowl of warm water and twenty minutes before supper.",
    "Many riders sit too low, and their knees tell them after an hour.",
    "Put the heel on the pedal: with the leg stretched, the saddle has the right height.",
    "**Never ride with one brake.** It sounds obvious, and every week somebody does.",
    "The train takes bicycles outside the rush hour, and in {town} there is a lift.",
    "What the makers call all-weather is meant for weather in a catalogue.",
    "We took the {line} by {brand} along, two bags and a bar of chocolate.",
    "After the second bridge the tar ends and the gravel begins; let some air out of the tyres.",
    "Prices have gone up by a tenth since spring, mostly for things made of aluminium.",
    "The market hall opens at seven, and the coffee there is better than it smells.",
    "Children learn it in an afternoon if nobody holds the saddle.",
    "The law asks for a white light in front, a red one behind and reflectors on the pedals.",
    "A lamp that blinds others makes nobody safer.",
    "In {town} the council has painted a lane on the old bridge, which is a beginning.",
    "The first workshop stood where the bakery is now and had room for two bicycles at a time.",
    "Ask for [[node:{node}|the parts named here]] in the shop; we keep them together in a box.",
    "Who rides slowly sees more, and arrives hardly later.",
    "On the way back the wind comes from the front; it always does.",
    "Take the tyre off on the side away from the chain and note where the thorn was.",
    "A wheel with 36 spokes forgives a broken one until you are home.",
    "Our advice on {noun}: buy once, buy plain, and keep the receipt.",
    "There will be soup at the end, and a pump for whoever needs it.",
    "It took the two of them nine weeks, forty punctures of other people and none of their own.",
    "We have seen [[node:{node}|a better way]] since, and changed this page accordingly.",
];

/// Sentences of comments.
pub(super) const COMMENT: &[&str] = &[
    "I have had mine for a year now and would buy it again.",
    "Thank you, that helped me a lot on Sunday morning.",
    "Does it also fit an old frame with 26 inch wheels?",
    "Mine squeaked for the first week, then it was quiet.",
    "The shop in {town} fitted it while I waited, very friendly people.",
    "Good value, although the colour is darker than in the picture.",
    "I would add: let it dry overnight before you ride.",
    "We did the tour with two children and it was fine.",
    "Mine came from {brand} and does the same for less money.",
    "The instructions could be better, there is one picture missing.",
    "Rode it through the rain from {town} and everything stayed dry.",
    "After 2,000 km there is no play at all.",
    "A pity that it is not made in a smaller size.",
    "Works as described. Delivery took two days.",
];

/// Sentences of the pages about the shop itself.
pub(super) const SERVICE: &[&str] = &[
    "Ask at the counter in {town} or write to us; an answer takes a working day.",
    "What we promise here holds in every one of our shops and for everything we send.",
    "You may bring back what you do not like within *thirty days*, ridden or not.",
    "We repair bicycles of every make, also those that we would never sell.",
    "The price is agreed before we begin; if it becomes more, we call you first.",
    "Parcels leave {town} every afternoon at four and arrive after two working days.",
    "Our shops can be reached without a step, and a bell at the door calls for help.",
    "We keep what we need to send your order and nothing else, and delete it when the law lets us.",
    "In {town} there is a stand with tools in front of the door, free to use day and night.",
    "Old tyres and tubes are taken back and become mats and bags.",
    "Nobody here is paid by what they sell you.",
    "See [[node:{node}|an example]] or call the shop that is nearest to you.",
];

/// Fills the gaps of one sentence.
pub(super) fn fill(choices: &mut Choices, sentence: &str, subject: &Subject<'_>) -> String {
    let mut text = String::with_capacity(sentence.len() + 16);
    let mut rest = sentence;
    while let Some((before, after)) = rest.split_once('{') {
        let (gap, after) = after.split_once('}').unwrap_or((after, ""));
        text.push_str(before);
        match gap {
            "noun" => text.push_str(subject.noun),
            "town" => text.push_str(choices.pick::<&str>(TOWNS)),
            "brand" => text.push_str(choices.pick(BRANDS).0),
            "line" => text.push_str(choices.pick::<&str>(LINES)),
            "node" => text.push_str(&choices.between(1, subject.nodes).to_string()),
            other => debug_assert!(false, "no gap is called {other}"),
        }
        rest = after;
    }
    text.push_str(rest);
    text
}

/// Draws sentences of one subject without repetition until all have been used.
struct Draw<'s> {
    subject: Subject<'s>,
    next: usize,
    stride: usize,
}

impl<'s> Draw<'s> {
    fn new(choices: &mut Choices, subject: &Subject<'s>) -> Self {
        let next = choices.below(subject.sentences.len());
        // These strides are coprime to every table length below 60, so each sentence is visited
        // once per cycle.
        Self { subject: *subject, next, stride: *choices.pick(&[61, 67, 71, 73, 79]) }
    }

    fn sentence(&mut self, choices: &mut Choices) -> String {
        let sentences = self.subject.sentences;
        let sentence = sentences.get(self.next).copied().unwrap_or_default();
        self.next = (self.next + self.stride) % sentences.len().max(1);
        fill(choices, sentence, &self.subject)
    }

    fn paragraph(&mut self, choices: &mut Choices, count: usize) -> String {
        let sentences: Vec<String> = (0..count).map(|_| self.sentence(choices)).collect();
        sentences.join(" ")
    }
}

/// A paragraph of `count` sentences.
pub(super) fn paragraph(choices: &mut Choices, count: usize, subject: &Subject<'_>) -> String {
    Draw::new(choices, subject).paragraph(choices, count)
}

/// A text of several paragraphs with headings and a list. `paragraphs` determines its length.
pub(super) fn text(
    choices: &mut Choices,
    paragraphs: usize,
    headings: &[&str],
    subject: &Subject<'_>,
) -> String {
    let mut draw = Draw::new(choices, subject);
    let mut text = String::new();
    for index in 0..paragraphs {
        if index > 0 {
            text.push_str("\n\n");
        }
        if let Some(heading) = headings.get(index / 2).filter(|_| index % 2 == 1) {
            text.push_str("## ");
            text.push_str(heading);
            text.push_str("\n\n");
        }
        let sentences = 2 + choices.below(3);
        text.push_str(&draw.paragraph(choices, sentences));
        if index % 3 == 2 {
            text.push('\n');
            for _ in 0..3 {
                text.push_str("\n- ");
                text.push_str(&draw.sentence(choices));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{ARTICLE, COMMENT, PRODUCT, SERVICE, Subject, fill, paragraph};
    use crate::content::random::Choices;

    #[test]
    fn every_gap_of_every_sentence_is_filled() {
        let mut choices = Choices::from_seed(3);
        for sentences in [PRODUCT, ARTICLE, COMMENT, SERVICE] {
            let subject = Subject { noun: "bell", nodes: 9, sentences };
            for sentence in sentences {
                assert!(!fill(&mut choices, sentence, &subject).contains(['{', '}']), "{sentence}");
            }
        }
    }

    #[test]
    fn paragraph_repeats_no_sentence() {
        let subject = Subject { noun: "bell", nodes: 9, sentences: &["A.", "B.", "C.", "D.", "E."] };
        for seed in 0..50 {
            let text = paragraph(&mut Choices::from_seed(seed), 5, &subject);
            let mut sentences: Vec<&str> = text.split(' ').collect();
            sentences.sort_unstable();
            assert_eq!(sentences, ["A.", "B.", "C.", "D.", "E."]);
        }
    }
}

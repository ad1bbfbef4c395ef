//! Writes the products with their prices, features and places in the catalogue.

use super::material::{BRANDS, KINDS, Kind, LINES};
use super::prose::{self, Subject};
use super::taxonomy::{BRAND, CATALOGUE, TAG};
use super::{DAY, FIRST_DAY, NODES, Node, PRODUCTS, Writer};
use crate::text::slug;
use rusqlite::params;

/// Writes all products.
pub(super) fn write(writer: &mut Writer<'_>) -> rusqlite::Result<()> {
    for index in 0..PRODUCTS {
        #[expect(clippy::indexing_slicing, reason = "the remainder by the length stays under it")]
        let kind = &KINDS[index as usize % KINDS.len()];
        product(writer, index, kind)?;
    }
    Ok(())
}

fn product(writer: &mut Writer<'_>, index: i64, kind: &Kind) -> rusqlite::Result<()> {
    let choices = &mut writer.choices;
    let brand = choices.pick(BRANDS).0;
    let line = choices.pick(LINES);
    let title = format!("{brand} {line} {}", kind.noun);
    let subject = Subject { noun: kind.noun, nodes: NODES, sentences: prose::PRODUCT };
    let paragraphs = 2 + choices.below(3);
    let body = prose::text(choices, paragraphs, &["What it is like", "Good to know"], &subject);
    // Prices end in 90 cents: a whole unit minus ten cents.
    let price = choices.between(kind.price.0, kind.price.1) / 100 * 100 - 10;
    let list_price = if choices.chance(20) { price + price / 1000 * 150 + 1000 } else { price };
    let weight = choices.between(kind.weight.0, kind.weight.1) / 10 * 10;
    let stock = if choices.chance(8) { 0 } else { choices.between(1, 40) };
    // The third power favours low numbers: few products sell often, most sell rarely.
    let sold = choices.between(0, 100).pow(3) / 10_000;
    let features: Vec<(&str, &str)> =
        kind.features.iter().map(|(name, values)| (*name, *choices.pick(values))).collect();
    let features = serde_json::to_string(&features).unwrap_or_default();
    let created = FIRST_DAY + index * DAY / 2 + choices.between(0, DAY / 2);
    let promote = choices.chance(6);
    let alias = format!("shop/{}/{}", slug(kind.name), slug(&format!("{brand} {line}")));
    let tag = *choices.pick(super::material::TAGS);
    let tagged = choices.chance(40);
    let node = Node {
        kind: "product",
        title: &title,
        uid: 1,
        created,
        promote,
        comment: 2,
        body: &body,
        alias: &alias,
    };
    let nid = writer.node(&node)?;
    writer.run(
        "INSERT INTO product (nid, sku, price, list_price, weight, stock, sold, image, features) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        params![
            nid,
            format!("MB-{}-{nid:04}", sku_letters(kind.name)),
            price,
            list_price,
            weight,
            stock,
            sold,
            kind.image,
            features
        ],
    )?;
    writer.file_under(nid, CATALOGUE, kind.name)?;
    writer.file_under(nid, BRAND, brand)?;
    if tagged {
        writer.file_under(nid, TAG, tag)?;
    }
    Ok(())
}

fn sku_letters(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphabetic).take(3).map(|letter| letter.to_ascii_uppercase()).collect()
}

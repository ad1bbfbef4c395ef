//! Which links of the systems that we know are followed.

use super::{LinkRule, RULES, link_refusal};
use proptest::prelude::{any, proptest};
use std::collections::BTreeSet;
use url::Url;

fn refusal(target: &str) -> Option<LinkRule> {
    link_refusal(&Url::parse("http://site.test").unwrap().join(target).unwrap())
}

fn assert_rule(rule: LinkRule, targets: &[&str]) {
    for target in targets {
        assert_eq!(refusal(target), Some(rule), "{target}");
    }
}

#[test]
fn every_rule_has_one_row_and_its_name() {
    let rules: BTreeSet<LinkRule> = RULES.iter().map(|row| row.rule).collect();
    let names: BTreeSet<&str> = RULES.iter().map(|row| row.name).collect();
    assert_eq!((rules.len(), names.len()), (RULES.len(), RULES.len()));
    assert_eq!(LinkRule::ManyParameters as usize + 1, RULES.len());
    for row in RULES {
        assert!(row.reason.ends_with('.') && row.rule.row().name == row.name);
        assert!(row.reason.split(' ').count() <= 25, "{}", row.reason);
    }
}

#[test]
fn links_of_wordpress_are_judged() {
    assert_rule(
        LinkRule::LogOut,
        &["/wp-login.php?action=logout&_wpnonce=1", "/my-account/customer-logout/"],
    );
    assert_rule(LinkRule::Token, &["/?p=1&_wpnonce=ab", "/x/?_ajax_nonce=1"]);
    assert_rule(LinkRule::Reply, &["/hello-world/?replytocom=3"]);
    assert_rule(LinkRule::Admin, &["/wp-admin/", "/wp-admin/post.php?post=1"]);
    assert_rule(LinkRule::Action, &["/wp-admin/admin.php?page=x&action=edit"]);
    assert_rule(LinkRule::LogIn, &["/wp-login.php", "/wp-login.php?redirect_to=%2F"]);
    assert_rule(LinkRule::Feed, &["/feed/", "/comments/feed/", "/?feed=rss2", "/hello/feed"]);
    assert_rule(LinkRule::Interface, &["/wp-json/wp/v2/posts/1", "/?rest_route=/wp/v2"]);
    assert_rule(LinkRule::Job, &["/wp-cron.php?doing_wp_cron", "/xmlrpc.php"]);
    assert_rule(LinkRule::OldVersion, &["/?p=1&preview=true"]);
    assert_rule(LinkRule::Search, &["/?s=word", "/?s="]);
    assert_rule(LinkRule::Redirector, &["/hello/?share=facebook&nb=1"]);
    assert_rule(LinkRule::Download, &["/wp-content/uploads/2024/01/a.PDF", "/a.jpg?x=1"]);
    for page in
        ["/", "/?p=5", "/?page_id=2", "/2024/05/hello/", "/category/news/page/2/", "/?cat=3", "/?paged=2"]
    {
        assert_eq!(refusal(page), None, "{page}");
    }
}

#[test]
fn links_of_woocommerce_are_judged() {
    assert_rule(
        LinkRule::Cart,
        &[
            "/shop/?add-to-cart=12",
            "/cart/?remove_item=ab&_wpnonce=1",
            "/?ADD-to-cart=1",
            "/cart/?undo_item=1",
            "/?%61dd-to-cart=5",
        ],
    );
    assert_rule(LinkRule::Wishlist, &["/product/x/?add_to_wishlist=7", "/wishlist/add/3"]);
    assert_rule(LinkRule::Action, &["/?wc-ajax=get_refreshed_fragments"]);
    assert_rule(LinkRule::Token, &["/checkout/order-received/12/?key=wc_order_a"]);
    for page in
        ["/shop/", "/product/blue-shirt/", "/product-category/shirts/?orderby=price", "/cart/", "/checkout/"]
    {
        assert_eq!(refusal(page), None, "{page}");
    }
}

#[test]
fn links_of_mediawiki_are_judged() {
    assert_rule(
        LinkRule::LogOut,
        &[
            "/wiki/Special:UserLogout",
            "/index.php?title=Special:UserLogout&returnto=X",
            "/index.php?title=Spezial%3AUserLogout",
        ],
    );
    assert_rule(
        LinkRule::SpecialPage,
        &["/wiki/Special:RecentChanges", "/wiki/Spezial:Abmelden", "/index.php?title=Sp%C3%A9cial:Pages"],
    );
    assert_rule(
        LinkRule::Action,
        &[
            "/index.php?title=X&action=edit",
            "/index.php?title=X&action=purge",
            "/w/index.php?title=X&action=edit&redlink=1",
            "/index.php?title=X&veaction=edit",
        ],
    );
    assert_rule(
        LinkRule::OldVersion,
        &["/index.php?title=X&oldid=5", "/index.php?title=X&diff=prev&oldid=5", "/index.php?title=X&diff=7"],
    );
    assert_rule(LinkRule::OtherForm, &["/index.php?title=X&printable=yes"]);
    for page in [
        "/wiki/Main_Page",
        "/index.php/Main_Page",
        "/index.php?title=Help:Contents",
        "/wiki/Deletion",
        "/wiki/User:Ann",
    ] {
        assert_eq!(refusal(page), None, "{page}");
    }
}

#[test]
fn links_of_drupal_typo3_and_others_are_judged() {
    assert_rule(
        LinkRule::LogOut,
        &[
            "/user/logout",
            "/?q=user/logout",
            "/users/sign_out",
            "/account/logout.php",
            "/a?next=/logout",
            "/auth?do=logout",
        ],
    );
    assert_rule(
        LinkRule::Change,
        &[
            "/node/5/delete",
            "/posts/3/vote",
            "/delete_post.php?id=4",
            "/a?mode=delete",
            "/newsletter/unsubscribe",
        ],
    );
    assert_rule(LinkRule::Admin, &["/node/5/edit", "/typo3/index.php", "/administrator/", "/admin/config"]);
    assert_rule(
        LinkRule::Token,
        &["/flag/x/5?token=ab", "/lib/a.php?sesskey=x", "/a?csrf_token=1", "/a?authenticity_token=1"],
    );
    assert_rule(LinkRule::Reply, &["/comment/reply/node/5/comment"]);
    assert_rule(LinkRule::OldVersion, &["/node/5/revisions", "/start?rev=123"]);
    assert_rule(
        LinkRule::Action,
        &[
            "/a?tx_x_pi1[action]=create",
            "/start?do=edit",
            "/index.php?option=com_x&task=user.out",
            "/a?tx_x%5Baction%5D=new",
        ],
    );
    assert_rule(LinkRule::Session, &["/a;jsessionid=AB?x=1", "/a?PHPSESSID=1", "/viewtopic.php?f=1&sid=ab"]);
    assert_rule(LinkRule::OtherForm, &["/print/5", "/node/5?format=pdf"]);
    for page in [
        "/node/5",
        "/taxonomy/term/3?page=2",
        "/news/detail?tx_news_pi1[action]=detail&tx_news_pi1[controller]=News&cHash=ab",
        "/index.php?id=5&L=1",
        "/index.php?option=com_content&view=article&id=5",
        "/how-to-delete-a-file/",
        "/blog/remove-stains.html",
        "/viewtopic.php?f=1&t=5",
    ] {
        assert_eq!(refusal(page), None, "{page}");
    }
}

#[test]
fn hidden_spellings_of_actions_are_found() {
    assert_rule(LinkRule::LogOut, &["/user/%6Cogout", "/USER/LOGOUT/", "/user/logout;x", "/a?x=1;logout=1"]);
    assert_rule(LinkRule::Cart, &["/x?a=1;add-to-cart=5", "/x?a=1&%20add-to-cart=5"]);
}

#[test]
fn endless_paths_and_combinations_are_refused() {
    assert_rule(
        LinkRule::DeepPath,
        &["/a/b/a/b/a/b", &format!("/{}", ["x/y"; 8].join("/")), "/1/2/3/4/5/6/7/8/9/10/11/12/13"],
    );
    assert_rule(LinkRule::ManyParameters, &["/a?b=1&c=2&d=3&e=4&f=5&g=6&h=7"]);
    assert_eq!(refusal("/de/shop/de"), None);
}

proptest! {
    #[test]
    fn any_target_is_judged(text in any::<String>()) {
        if let Ok(url) = Url::parse("http://h/").unwrap().join(&text) {
            let _ = link_refusal(&url);
        }
    }

    #[test]
    fn log_out_is_refused_whatever_surrounds_it(before in "[a-z0-9]{1,8}", after in "[a-z0-9&=]{0,8}") {
        assert_eq!(refusal(&format!("/{before}/logout?{after}")), Some(LinkRule::LogOut));
    }
}

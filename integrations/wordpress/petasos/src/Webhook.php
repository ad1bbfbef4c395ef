<?php
/**
 * Tells a content delivery network in front of the edge of each purge, by one request.
 *
 * The network must fetch pages again from an edge that has purged them, so the request follows the
 * purges of the edges. The network does not see the tags of pages, because the edge removes them. So
 * a request can name the URLs of the changed posts, or purge everything.
 *
 * Invariant: see `Http`: no redirect is followed, so the request goes to the host of the setting
 * only. A header field of wp-config.php or the environment is sent only to a URL that is set there
 * too. Placeholders are replaced by JSON, so no tag or URL can change the form of the content.
 * Errors contain no header field.
 */

declare(strict_types=1);

namespace Petasos;

final class Webhook
{
    /** Option: the last error and its time, until a request succeeds. */
    public const FAILURE = 'petasos_webhook';

    /** A request names at most this many URLs, as networks allow. More of them purge everything. */
    private const URLS_MAX = 30;

    /**
     * Tags that accompany those of changed posts. Pages with only these are archives and links. A
     * request does not name them, see README.md. Any other tag can be on pages all over the site.
     */
    private const BESIDE_POSTS = '(?:link|type|list|tax)-.+|posts|lists|terms|authors|comments|feed|home|front|search|404|rest';

    /** Types of posts that are not public themselves, but have the permalink of a public page. */
    private const PARTS = ['attachment', 'product_variation'];

    private const BODY = '{"tags": {tags}, "urls": {urls}, "everything": {everything}}';

    /** Whether the setting is a URL that can be requested. */
    public static function isUrl(string $url): bool
    {
        return preg_match('#^https?://(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?(?:/[\x21-\x7e]*)?$#D', $url) === 1;
    }

    /** Whether the setting is a header field, or empty. */
    public static function isField(string $field): bool
    {
        return $field === '' || preg_match('/^[A-Za-z0-9-]{1,100}: ?[\x20-\x7e]{1,4000}$/D', $field) === 1;
    }

    /**
     * Sends the request for one purge, if there is a webhook.
     *
     * @param  list<string> $tags both empty for everything
     * @param  list<string> $urls
     * @return ?string the error, or null
     */
    public static function send(array $tags, array $urls): ?string
    {
        $url = Settings::text('PETASOS_WEBHOOK_URL');
        if ($url === '') {
            return null;
        }
        try {
            $why = self::ask($url, self::body($tags, $urls));
        } catch (\RuntimeException | \JsonException $error) {
            // A URL that is no UTF-8 has no JSON. The editor's request must not fail because of it.
            $why = $error->getMessage();
        }
        $why === null ? delete_option(self::FAILURE) : update_option(self::FAILURE, ['why' => $why, 'since' => time()], false);
        return $why;
    }

    /** Whether there is a webhook whose content has a list of URLs. */
    public static function namesUrls(): bool
    {
        return strpos(Settings::text('PETASOS_WEBHOOK_BODY', self::BODY), '{urls}') !== false && Settings::text('PETASOS_WEBHOOK_URL') !== '';
    }

    /**
     * The old and new URLs of the posts that these tags name, and the front page. Empty if they are
     * too many, if one is unknown, or if a tag is on pages all over the site.
     *
     * @param  list<string> $tags
     * @return list<string>
     */
    public static function urlsOf(array $tags, string $prefix, OldUrls $old): array
    {
        if ($tags === [] || !self::namesUrls()) {
            return [];
        }
        $urls = [home_url('/')];
        foreach ($tags as $tag) {
            if (preg_match('/^' . preg_quote($prefix, '/') . '(?:(post|comments|author)-(\d+)|' . self::BESIDE_POSTS . ')$/D', $tag, $match) !== 1) {
                return [];
            }
            $found = [];
            if (isset($match[2])) {
                $found = $match[1] === 'author' ? self::urlsOfAuthor((int) $match[2]) : self::urlsOfPost((int) $match[2], $old);
            }
            if ($found === null) {
                return [];
            }
            array_push($urls, ...$found);
        }
        $urls = array_values(array_unique($urls));
        return count($urls) > self::URLS_MAX ? [] : $urls;
    }

    /** @return ?list<string> URLs of a post before and after its change; null if none is known */
    private static function urlsOfPost(int $id, OldUrls $old): ?array
    {
        $urls = $old->of($id);
        // A file that is uploaded to a draft is not public, but it has no other URL than this one.
        $url = is_post_publicly_viewable($id) || in_array(get_post_type($id), self::PARTS, true) ? get_permalink($id) : false;
        if (is_string($url)) {
            $urls[] = $url;
        }
        return $urls === [] ? null : $urls;
    }

    /**
     * No URLs for a user without posts: customers who change their profile must not purge the site.
     *
     * @return ?list<string> null if pages all over the site may name this user
     */
    private static function urlsOfAuthor(int $id): ?array
    {
        $is_author = get_userdata($id) === false || (int) count_user_posts($id, get_post_types(['public' => true])) > 0;
        return $is_author ? null : [];
    }

    /** The content for this purge. */
    private static function body(array $tags, array $urls): string
    {
        $template = Settings::text('PETASOS_WEBHOOK_BODY', self::BODY);
        // Empty lists would purge nothing, although pages have changed.
        $says_tags = $tags !== [] && strpos($template, '{tags}') !== false;
        $says_urls = $urls !== [] && strpos($template, '{urls}') !== false;
        $is_all = !$says_tags && !$says_urls;
        if ($is_all) {
            // A content without any list says the same of each purge.
            $is_partial = preg_match('/\{(?:tags|urls)\}/', $template) === 1 && strpos($template, '{everything}') === false;
            $for_all = Settings::text('PETASOS_WEBHOOK_BODY_ALL', $is_partial ? '' : $template);
            if ($for_all === '') {
                throw new \RuntimeException('there is no content for a purge of everything');
            }
            $template = $for_all;
        }
        $values = ['tags' => $tags, 'urls' => $urls, 'everything' => $is_all];
        // One pass, so that a tag with the text of a placeholder stays as it is.
        return (string) preg_replace_callback(
            '/\{(tags|urls|everything)\}/',
            static fn (array $found): string => json_encode($values[$found[1]], JSON_THROW_ON_ERROR | JSON_UNESCAPED_SLASHES),
            $template
        );
    }

    /** @return ?string the error, or null */
    private static function ask(string $url, string $body): ?string
    {
        $method = Settings::text('PETASOS_WEBHOOK_METHOD', 'POST');
        if (!self::isUrl($url) || preg_match('/^[A-Z]{3,10}$/D', $method) !== 1) {
            throw new \RuntimeException('its URL or method cannot be used');
        }
        $parts = (array) parse_url($url);
        $host = $parts['host'] . (isset($parts['port']) ? ":{$parts['port']}" : '');
        $target = ($parts['path'] ?? '/') . (isset($parts['query']) ? "?{$parts['query']}" : '');
        $headers = ['Host' => $host, 'Content-Type' => 'application/json'] + self::field();
        $limit = Settings::number('PETASOS_TIMEOUT_MS', 2000, 10, 60_000) / 1000;
        $status = Http::ask($method, "{$parts['scheme']}://$host", $target, $headers, $body, $limit)['status'];
        return $status >= 200 && $status < 300 ? null : "it answered $status";
    }

    /** @return array<string, string> the header field with the secret of the network, if there is one */
    private static function field(): array
    {
        $field = Settings::text('PETASOS_WEBHOOK_HEADER');
        if ($field === '' || (Settings::isFixed('PETASOS_WEBHOOK_HEADER') && !Settings::isFixed('PETASOS_WEBHOOK_URL'))) {
            return [];
        }
        if (!self::isField($field)) {
            throw new \RuntimeException('its header field cannot be sent');
        }
        [$name, $value] = explode(':', $field, 2);
        return [$name => trim($value)];
    }
}

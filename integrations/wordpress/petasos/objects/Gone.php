<?php
/** A server of objects that cannot be reached, or ended the conversation. The message says which and why. */

declare(strict_types=1);

namespace Petasos\Objects;

final class Gone extends \RuntimeException
{
}

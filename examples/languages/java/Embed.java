// Embeds a text over the JSON interface, with Java's standard library alone:
//
//   java Embed.java http://127.0.0.1:8000 "join two paths" 10
//
// It prints the vector as a list of numbers. The last argument is the deadline in seconds. Java has
// no JSON in its library, so the vector is read as base64, and strings by their pattern.

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.Arrays;
import java.util.Base64;
import java.util.regex.Pattern;

public class Embed {
  /** Returns a text as a string of JSON. */
  static String quoted(String text) {
    StringBuilder out = new StringBuilder("\"");
    for (char each : text.toCharArray()) {
      boolean plain = each >= ' ' && each != '"' && each != '\\';
      out.append(plain ? String.valueOf(each) : String.format("\\u%04x", (int) each));
    }
    return out.append('"').toString();
  }

  /** Returns the first string with this name, as it is spelled in JSON. */
  static String field(String name, String json) {
    String string = "\"([^\"\\\\]*+(?:\\\\.[^\"\\\\]*+)*+)\"";
    var found = Pattern.compile('"' + name + "\":\\s*" + string).matcher(json);
    return found.find() ? found.group(1) : "";
  }

  static float[] embed(String address, String text, double seconds)
      throws IOException, InterruptedException {
    String body = "{\"inputs\": [{\"text\": " + quoted(text) + "}],"
        + " \"outputs\": {\"pooled\": {}}, \"encoding\": \"base64\"}";
    HttpRequest request = HttpRequest.newBuilder(URI.create(address + "/v1/encode"))
        .header("Content-Type", "application/json")
        // The service drops the work after this time, and the client waits ten seconds more.
        .header("X-Request-Timeout", String.valueOf(seconds))
        .timeout(Duration.ofMillis((long) (1000 * (seconds + 10))))
        .version(HttpClient.Version.HTTP_1_1)
        .POST(HttpRequest.BodyPublishers.ofString(body))
        .build();
    var response = HttpClient.newHttpClient().send(request, BodyHandlers.ofString());
    String json = response.body();
    if (response.statusCode() != 200) {
      throw new IOException(field("code", json) + ": " + field("message", json));
    }
    ByteBuffer bytes = ByteBuffer.wrap(Base64.getDecoder().decode(field("data", json)));
    float[] vector = new float[bytes.remaining() / 4];
    bytes.order(ByteOrder.LITTLE_ENDIAN).asFloatBuffer().get(vector);
    return vector;
  }

  public static void main(String[] words) throws InterruptedException {
    if (words.length != 3) {
      System.err.println("usage: java Embed.java ADDRESS TEXT SECONDS");
      System.exit(2);
    }
    try {
      float[] vector = embed(words[0], words[1], Double.parseDouble(words[2]));
      System.out.println(Arrays.toString(vector));
    } catch (IOException error) {
      System.err.println(error.getMessage());
      System.exit(1);
    }
  }
}
